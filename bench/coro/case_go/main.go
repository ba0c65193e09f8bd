// main.go: Go's side of bench-coro. Goroutines are scheduled, not resumed; the hand-over is an unbuffered channel. All
// of it runs on one processor (GOMAXPROCS 1), where a hand-over is fastest.
//
// The command line, the timing loop and the answer are those of bench/common/case.h.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	batchMin       = 200 * time.Microsecond
	liveGoroutines = 10000
	memoryFloorKiB = 512 * 1024
	memoryCheck    = 4096
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "check failed: "+format+"\n", args...)
	os.Exit(1)
}

func checkSum(got, expected uint64) {
	if got != expected {
		fail("sum is %d, expected %d", got, expected)
	}
}

func pingpongSum(n int) uint64 {
	return uint64(n) * (uint64(n) + 1) / 2
}

func timed(batch func(n int), n int) time.Duration {
	start := time.Now()
	batch(n)
	return time.Since(start)
}

// measure returns the median over the batches, in ns, of one operation divided by per.
func measure(budget time.Duration, batch func(n int), per float64) float64 {
	end := time.Now().Add(budget)
	n := 1
	batch(1)
	for timed(batch, n) < batchMin {
		n *= 2
	}
	var samples []float64
	for len(samples) == 0 || time.Now().Before(end) {
		samples = append(samples, float64(timed(batch, n).Nanoseconds())/float64(n)/per)
	}
	sort.Float64s(samples)
	return samples[len(samples)/2]
}

func runSwitch(budget time.Duration) {
	there, back := make(chan uint64), make(chan uint64)
	go func() {
		for v := range there {
			back <- v + 1
		}
	}()
	value := measure(budget, func(n int) {
		var sum uint64
		for i := 0; i < n; i++ {
			there <- uint64(i)
			sum += <-back
		}
		checkSum(sum, pingpongSum(n))
	}, 2)
	fmt.Printf("ok %.4f handover=channel GOMAXPROCS=1\n", value)
}

func runSpawn(budget time.Duration) {
	done := make(chan uint64)
	value := measure(budget, func(n int) {
		var sum uint64
		for i := 0; i < n; i++ {
			v := uint64(i)
			go func() { done <- v + 1 }()
			sum += <-done
		}
		checkSum(sum, pingpongSum(n))
	}, 1)
	fmt.Printf("ok %.4f GOMAXPROCS=1\n", value)
}

// yieldUntil lets the other goroutines run until the counter is there. It is atomic, as a goroutine may be preempted
// anywhere.
func yieldUntil(counter *atomic.Int64, target int64) {
	for counter.Load() < target {
		runtime.Gosched()
	}
}

func runSpawnLive(budget time.Duration) {
	resume := make(chan struct{})
	value := measure(budget, func(n int) {
		for ; n > 0; n-- {
			var arrived, ended atomic.Int64
			for i := 0; i < liveGoroutines; i++ {
				go func() {
					arrived.Add(1)
					<-resume
					ended.Add(1)
				}()
			}
			yieldUntil(&arrived, liveGoroutines)
			for i := 0; i < liveGoroutines; i++ {
				resume <- struct{}{}
			}
			yieldUntil(&ended, liveGoroutines)
		}
	}, liveGoroutines)
	fmt.Printf("ok %.4f live=%d GOMAXPROCS=1\n", value, liveGoroutines)
}

// procKiB is the value of a "Name:   123 kB" line.
func procKiB(path, name string) float64 {
	f, err := os.Open(path)
	if err != nil {
		fail("%v", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest := strings.TrimPrefix(lines.Text(), name+":"); rest != lines.Text() {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib
		}
	}
	fail("no %s in %s", name, path)
	return 0
}

func memory() (rss, pte float64) {
	return procKiB("/proc/self/status", "VmRSS") * 1024, procKiB("/proc/self/status", "VmPTE") * 1024
}

//go:noinline
func fill(locals *[64]byte, k int) {
	for i := range locals {
		locals[i] = byte(k % 251)
	}
}

//go:noinline
func verify(locals *[64]byte, k int) {
	for i := range locals {
		if locals[i] != byte(k%251) {
			fail("byte %d of the locals of goroutine %d was not kept", i, k)
		}
	}
}

func runRSS(count int) {
	resume := make(chan struct{})
	var arrived, ended atomic.Int64
	rssBefore, pteBefore := memory()
	for i := 0; i < count; i++ {
		if i%memoryCheck == 0 && procKiB("/proc/meminfo", "MemAvailable") < memoryFloorKiB {
			fmt.Printf("n/a memory runs out at %d goroutines\n", i)
			os.Exit(0)
		}
		go func(k int) {
			var locals [64]byte
			fill(&locals, k)
			arrived.Add(1)
			<-resume
			verify(&locals, k)
			ended.Add(1)
		}(i)
	}
	yieldUntil(&arrived, int64(count))
	rssNow, pteNow := memory()
	close(resume)
	yieldUntil(&ended, int64(count))
	rss, pte := (rssNow-rssBefore)/float64(count), (pteNow-pteBefore)/float64(count)
	fmt.Printf("ok %.1f count=%d rss=%.1f pte=%.1f\n", rss+pte, count, rss, pte)
}

func main() {
	runs := map[string]func(budget time.Duration){
		"switch":    runSwitch,
		"spawn":     runSpawn,
		"spawn-10k": runSpawnLive,
		"rss-100k":  func(time.Duration) { runRSS(100000) },
		"rss-1m":    func(time.Duration) { runRSS(1000000) },
	}
	if len(os.Args) == 4 && os.Args[2] == "go" {
		ms, err := strconv.ParseFloat(os.Args[3], 64)
		if run := runs[os.Args[1]]; run != nil && err == nil {
			runtime.GOMAXPROCS(1)
			run(time.Duration(ms * 1e6))
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: bench-coro-go BENCH go MILLISECONDS; see bench/common/case.h")
	os.Exit(2)
}
