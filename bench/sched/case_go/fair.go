package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// The benches fair-B and fair-move; see bench/common/fair.h and bench/sched/case_weft_fair.c.

const (
	moveComputes = 300 * time.Millisecond
	moveWakesMin = 3
)

var late []time.Duration

func answerLate(more string) {
	if len(late) == 0 {
		fail("nothing was served")
	}
	sort.Slice(late, func(a, b int) bool { return late[a] < late[b] })
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	fmt.Printf("ok %.4f p50=%.1f p99=%.1f waits=%d %s\n", us(late[len(late)-1]), us(late[len(late)/2]),
		us(late[len(late)*99/100]), len(late), more)
}

var spanState uint64 = 88172645463325252

// fairSpan is 1 ms and up to a turn of the neighbour.
func fairSpan(turn time.Duration) time.Duration {
	spanState ^= spanState << 13
	spanState ^= spanState >> 7
	spanState ^= spanState << 17
	return time.Millisecond + time.Duration(spanState%uint64(turn.Microseconds()+1))*time.Microsecond
}

// runFair has waits beside a goroutine that computes for a turn and yields.
func runFair(budget, turn time.Duration, waits func(turn time.Duration, end time.Time)) {
	var ended atomic.Bool
	end := time.Now().Add(budget)
	go func() {
		waits(turn, end)
		ended.Store(true)
	}()
	for !ended.Load() {
		for start := time.Now(); time.Since(start) < turn; {
		}
		runtime.Gosched()
	}
	answerLate("GOMAXPROCS=1")
}

func sleepBeside(turn time.Duration, end time.Time) {
	for first := true; first || time.Now().Before(end); first = false {
		span := fairSpan(turn)
		start := time.Now()
		time.Sleep(span)
		late = append(late, time.Since(start)-span)
	}
}

func timeBeside(turn time.Duration, end time.Time) {
	fired := make(chan struct{}, 1)
	for first := true; first || time.Now().Before(end); first = false {
		span := fairSpan(turn)
		start := time.Now()
		time.AfterFunc(span, func() {
			late = append(late, time.Since(start)-span)
			fired <- struct{}{}
		})
		<-fired
	}
}

// readBeside reads what another process writes: a goroutine would be held up with its reader. The times are the wall
// clock's, which both processes read.
func readBeside(turn time.Duration, end time.Time) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		fail("socketpair: %v", err)
	}
	own, other := os.NewFile(uintptr(ends[0]), "own"), os.NewFile(uintptr(ends[1]), "other")
	conn, err := net.FileConn(own)
	if err != nil {
		fail("FileConn: %v", err)
	}
	own.Close()
	writer := exec.Command("/proc/self/exe", "fair-writer", strconv.FormatInt(int64(turn), 10))
	writer.ExtraFiles = []*os.File{other}
	if err := writer.Start(); err != nil {
		fail("the writer: %v", err)
	}
	other.Close()
	var stamp [8]byte
	for first := true; first || time.Now().Before(end); first = false {
		if n, err := conn.Read(stamp[:]); n != len(stamp) {
			fail("read: %d, %v", n, err)
		}
		late = append(late, time.Duration(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(stamp[:]))))
		if _, err := conn.Write(stamp[:1]); err != nil {
			fail("write: %v", err)
		}
	}
	conn.Close()
	writer.Wait()
}

// fairWriter is the other process: it writes the time, and waits until that was taken.
func fairWriter(turn string) {
	span, err := strconv.ParseInt(turn, 10, 64)
	if err != nil {
		fail("%v", err)
	}
	var stamp [8]byte
	for {
		time.Sleep(fairSpan(time.Duration(span)))
		binary.LittleEndian.PutUint64(stamp[:], uint64(time.Now().UnixNano()))
		if _, err := syscall.Write(3, stamp[:]); err != nil {
			return
		}
		if n, err := syscall.Read(3, stamp[:1]); n != 1 || err != nil {
			return
		}
	}
}

// runMove wakes a goroutine and computes on, with a second P that is idle.
func runMove(budget time.Duration) {
	runtime.GOMAXPROCS(2)
	end := time.Now().Add(budget)
	wake, done := make(chan time.Time, 1), make(chan time.Duration, 1)
	var ran atomic.Bool
	go func() {
		for at := range wake {
			took := time.Since(at)
			ran.Store(true)
			done <- took
		}
	}()
	for i := 0; i < moveWakesMin || time.Now().Before(end); i++ {
		time.Sleep(5 * time.Millisecond)
		ran.Store(false)
		at := time.Now()
		wake <- at
		for !ran.Load() && time.Since(at) < moveComputes {
		}
		late = append(late, <-done)
	}
	close(wake)
	answerLate("GOMAXPROCS=2")
}
