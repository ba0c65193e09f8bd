// Goroutines, channels and what package sync has, the comparator of bench-sched. GOMAXPROCS is 1, and 2 in the benches
// of two workers.
//
// The command line, the timing loop and the answer are those of bench/common/case.h; the sleepers are those of
// bench/common/sleepers.h.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	batchMin  = 200 * time.Microsecond
	live      = 10000
	leaves    = 1000000
	leavesSum = 499999500000
	lockTurns = 256000
	sleepers  = 100000
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

// timed returns how long a batch took and how many operations that were.
func timed(batch func(n int) int, n int) (time.Duration, int) {
	start := time.Now()
	operations := batch(n)
	return time.Since(start), operations
}

// measure returns the median over the batches, in ns, of one operation. A batch says how many it did.
func measure(budget time.Duration, batch func(n int) int) float64 {
	end := time.Now().Add(budget)
	n := 1
	batch(1)
	took, operations := timed(batch, n)
	for took < batchMin {
		n *= 2
		took, operations = timed(batch, n)
	}
	samples := []float64{float64(took.Nanoseconds()) / float64(operations)}
	for time.Now().Before(end) {
		took, operations = timed(batch, n)
		samples = append(samples, float64(took.Nanoseconds())/float64(operations))
	}
	sort.Float64s(samples)
	return samples[len(samples)/2]
}

// runYield counts what every goroutine did: runtime.Gosched is nearly but not exactly round robin.
func runYield(budget time.Duration, goroutines int) {
	counts := make([]int, goroutines*8) // one in a cache line
	for i := 1; i < goroutines; i++ {
		go func(count *int) {
			for {
				*count++
				runtime.Gosched()
			}
		}(&counts[i*8])
	}
	total := func() (sum int) {
		for i := 0; i < len(counts); i += 8 {
			sum += counts[i]
		}
		return sum
	}
	value := measure(budget, func(n int) int {
		before := total()
		for i := 0; i < n; i++ {
			counts[0]++
			runtime.Gosched()
		}
		done := total() - before
		if n > 1000 && (done < n*goroutines/2 || done > n*goroutines*2) {
			fail("%d of %d goroutines' yields for %d of the first's", done, goroutines, n)
		}
		return done
	})
	fmt.Printf("ok %.4f GOMAXPROCS=1\n", value)
}

func runSpawnJoin(budget time.Duration) {
	done := make(chan uint64)
	value := measure(budget, func(n int) int {
		var sum uint64
		for i := 0; i < n; i++ {
			v := uint64(i)
			go func() { done <- v + 1 }()
			sum += <-done
		}
		checkSum(sum, pingpongSum(n))
		return n
	})
	fmt.Printf("ok %.4f join=channel GOMAXPROCS=1\n", value)
}

var (
	all     sync.WaitGroup
	results [live]uint64
)

// leaveResult is a plain function of one argument: a closure that captures more takes a tenth longer to start.
func leaveResult(i int) {
	results[i] = uint64(i) + 1
	all.Done()
}

func runSpawnJoinLive(budget time.Duration) {
	value := measure(budget, func(n int) int {
		for round := 0; round < n; round++ {
			var sum uint64
			all.Add(live)
			for i := 0; i < live; i++ {
				go leaveResult(i)
			}
			all.Wait()
			for i := range results {
				sum += results[i]
				results[i] = 0
			}
			checkSum(sum, pingpongSum(live))
		}
		return n * live
	})
	fmt.Printf("ok %.4f live=%d join=WaitGroup GOMAXPROCS=1\n", value, live)
}

// pingpong is n round trips of two messages.
func pingpong(there, back chan uint64) func(n int) int {
	return func(n int) int {
		var sum uint64
		for i := 0; i < n; i++ {
			there <- uint64(i)
			sum += <-back
		}
		checkSum(sum, pingpongSum(n))
		return n * 2
	}
}

func answerPlusOne(there, back chan uint64) {
	for v := range there {
		back <- v + 1
	}
}

func runChan(budget time.Duration) {
	there, back := make(chan uint64), make(chan uint64)
	go answerPlusOne(there, back)
	fmt.Printf("ok %.4f GOMAXPROCS=1\n", measure(budget, pingpong(there, back)))
}

// runSem has for a semaphore what Go has: a buffered channel.
func runSem(budget time.Duration) {
	there, back := make(chan struct{}, 1), make(chan struct{}, 1)
	var value uint64
	go func() {
		for range there {
			value++
			back <- struct{}{}
		}
	}()
	figure := measure(budget, func(n int) int {
		var sum uint64
		for i := 0; i < n; i++ {
			value = uint64(i)
			there <- struct{}{}
			<-back
			sum += value
		}
		checkSum(sum, pingpongSum(n))
		return n * 2
	})
	fmt.Printf("ok %.4f semaphore=chan GOMAXPROCS=1\n", figure)
}

func skynet(parent chan uint64, ordinal, size int) {
	if size == 1 {
		parent <- uint64(ordinal)
		return
	}
	children := make(chan uint64)
	var sum uint64
	for i := 0; i < 10; i++ {
		go skynet(children, ordinal+i*(size/10), size/10)
	}
	for i := 0; i < 10; i++ {
		sum += <-children
	}
	parent <- sum
}

func runSkynet(budget time.Duration, workers int) {
	runtime.GOMAXPROCS(workers)
	root := make(chan uint64)
	value := measure(budget, func(n int) int {
		for i := 0; i < n; i++ {
			go skynet(root, 0, leaves)
			checkSum(<-root, leavesSum)
		}
		return n * leaves
	})
	fmt.Printf("ok %.4f leaves=%d GOMAXPROCS=%d\n", value, leaves, workers)
}

// runWake ties each goroutine to a thread, or leaves them where the scheduler puts them.
func runWake(budget time.Duration, lock bool) {
	runtime.GOMAXPROCS(2)
	there, back := make(chan uint64), make(chan uint64)
	if lock {
		runtime.LockOSThread()
	}
	go func() {
		if lock {
			runtime.LockOSThread()
		}
		answerPlusOne(there, back)
	}()
	fmt.Printf("ok %.4f handover=channel locked=%t GOMAXPROCS=2\n", measure(budget, pingpong(there, back)), lock)
}

// runMutex lets nobody lock before all are there; else the first would be done before the other thread is awake.
func runMutex(budget time.Duration, goroutines int) {
	runtime.GOMAXPROCS(2)
	var mutex sync.Mutex
	var arrived atomic.Int64
	var counter, expected uint64
	value := measure(budget, func(n int) int {
		turns := n * lockTurns / goroutines
		all.Add(goroutines)
		arrived.Store(0)
		for i := 0; i < goroutines; i++ {
			go func() {
				arrived.Add(1)
				for arrived.Load() < int64(goroutines) {
					runtime.Gosched()
				}
				for turn := 0; turn < turns; turn++ {
					mutex.Lock()
					counter++
					mutex.Unlock()
				}
				all.Done()
			}()
		}
		all.Wait()
		expected += uint64(turns * goroutines)
		checkSum(counter, expected)
		return turns * goroutines
	})
	fmt.Printf("ok %.4f GOMAXPROCS=2\n", value)
}

// sleeperUs is how long sleeper i sleeps; see sleepers.c.
func sleeperUs(i int) uint64 {
	z := (uint64(i) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return 1000 + (z^z>>31)%999001
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail("getrusage: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func runSleepers(figure string) {
	lateness := make([]time.Duration, sleepers)
	var woken atomic.Int64
	for i := range lateness {
		lateness[i] = -1
	}
	all.Add(sleepers)
	cpuBefore, before := cpuTime(), time.Now()
	for i := range lateness {
		go func(i int) {
			asked := time.Duration(sleeperUs(i)) * time.Microsecond
			start := time.Now()
			time.Sleep(asked)
			lateness[i] = time.Since(start) - asked
			woken.Add(1)
			all.Done()
		}(i)
		runtime.Gosched()
	}
	all.Wait()
	wall, cpu := time.Since(before), cpuTime()-cpuBefore
	checkSum(uint64(woken.Load()), sleepers)
	sort.Slice(lateness, func(a, b int) bool { return lateness[a] < lateness[b] })
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	p50, p99 := us(lateness[sleepers/2]), us(lateness[sleepers*99/100])
	value := ms(cpu)
	if figure == "p99" {
		value = p99
	}
	fmt.Printf("ok %.4f wall_ms=%.1f cpu_ms=%.1f p50_us=%.1f p99_us=%.1f earliest_us=%.1f GOMAXPROCS=1\n",
		value, ms(wall), ms(cpu), p50, p99, us(lateness[0]))
}

func main() {
	type run = func(budget time.Duration)
	runs := map[string]run{
		"yield-2":            func(b time.Duration) { runYield(b, 2) },
		"yield-1000":         func(b time.Duration) { runYield(b, 1000) },
		"spawn-join":         runSpawnJoin,
		"spawn-join-10k":     runSpawnJoinLive,
		"chan":               runChan,
		"sem":                runSem,
		"skynet-1":           func(b time.Duration) { runSkynet(b, 1) },
		"skynet-2":           func(b time.Duration) { runSkynet(b, 2) },
		"wake":               func(b time.Duration) { runWake(b, true) },
		"wake go-unlocked":   func(b time.Duration) { runWake(b, false) },
		"sleepers-p99":       func(time.Duration) { runSleepers("p99") },
		"sleepers-cpu":       func(time.Duration) { runSleepers("cpu") },
		"fair-0.1 go-sleep":  func(b time.Duration) { runFair(b, 100*time.Microsecond, sleepBeside) },
		"fair-0.5 go-sleep":  func(b time.Duration) { runFair(b, 500*time.Microsecond, sleepBeside) },
		"fair-5 go-sleep":    func(b time.Duration) { runFair(b, 5*time.Millisecond, sleepBeside) },
		"fair-0.1 go-timer":  func(b time.Duration) { runFair(b, 100*time.Microsecond, timeBeside) },
		"fair-0.5 go-timer":  func(b time.Duration) { runFair(b, 500*time.Microsecond, timeBeside) },
		"fair-5 go-timer":    func(b time.Duration) { runFair(b, 5*time.Millisecond, timeBeside) },
		"fair-0.1 go-socket": func(b time.Duration) { runFair(b, 100*time.Microsecond, readBeside) },
		"fair-0.5 go-socket": func(b time.Duration) { runFair(b, 500*time.Microsecond, readBeside) },
		"fair-5 go-socket":   func(b time.Duration) { runFair(b, 5*time.Millisecond, readBeside) },
		"fair-move":          runMove,
		"mutex-1":            func(b time.Duration) { runMutex(b, 1) },
		"mutex-4":            func(b time.Duration) { runMutex(b, 4) },
		"mutex-16":           func(b time.Duration) { runMutex(b, 16) },
		"mutex-64":           func(b time.Duration) { runMutex(b, 64) },
	}
	if len(os.Args) == 3 && os.Args[1] == "fair-writer" {
		fairWriter(os.Args[2])
		return
	}
	if len(os.Args) == 4 {
		name := os.Args[1]
		if os.Args[2] != "go" {
			name += " " + os.Args[2]
		}
		ms, err := strconv.ParseFloat(os.Args[3], 64)
		if run := runs[name]; run != nil && err == nil {
			runtime.GOMAXPROCS(1)
			run(time.Duration(ms * 1e6))
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: bench-sched-go BENCH LIBRARY MILLISECONDS; see bench/common/case.h")
	os.Exit(2)
}
