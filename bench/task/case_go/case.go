// The part of the Go case programs of bench-task that is the same for plain goroutines (plain.go) and for errgroup
// (errgroup.go): the command line, the timing loops and the answer, as in bench/common/case.h.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"time"
)

const (
	batchMin = 200 * time.Microsecond
	children = 1000
)

// entry is a measurement that the program can make. It returns ns of one operation.
type entry struct {
	workers int
	run     func(budget time.Duration) float64
}

// entries is filled by the files that the program is built from; the key is "BENCH LIBRARY".
var entries = map[string]entry{}

// results has what the children of a group leave, each in its own place.
var results [children]uint64

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

func checkResults() {
	var sum uint64
	for i := range results {
		sum += results[i]
		results[i] = 0
	}
	checkSum(sum, pingpongSum(children))
}

func timed(batch func(n int), n int) time.Duration {
	start := time.Now()
	batch(n)
	return time.Since(start)
}

func median(samples []float64) float64 {
	sort.Float64s(samples)
	return samples[len(samples)/2]
}

// settled is the better of two, so that a hiccup does not make a short batch look long.
func settled(batch func(n int), n int) time.Duration {
	first, second := timed(batch, n), timed(batch, n)
	if first < second {
		return first
	}
	return second
}

// measure returns the median over the batches, in ns, of one operation divided by per.
func measure(budget time.Duration, per int, batch func(n int)) float64 {
	end := time.Now().Add(budget)
	n := 1
	batch(1)
	took := settled(batch, n)
	for took < batchMin {
		n *= 2
		took = settled(batch, n)
	}
	figure := func(took time.Duration) float64 { return float64(took.Nanoseconds()) / float64(n) / float64(per) }
	samples := []float64{figure(took)}
	for time.Now().Before(end) {
		samples = append(samples, figure(timed(batch, n)))
	}
	return median(samples)
}

// measurePrepared is for an operation that times itself, because its preparation must not count.
func measurePrepared(budget time.Duration, per int, once func() time.Duration) float64 {
	end := time.Now().Add(budget)
	once()
	samples := []float64{float64(once().Nanoseconds()) / float64(per)}
	for time.Now().Before(end) {
		samples = append(samples, float64(once().Nanoseconds())/float64(per))
	}
	return median(samples)
}

func main() {
	if len(os.Args) == 4 {
		ms, err := strconv.ParseFloat(os.Args[3], 64)
		if e, found := entries[os.Args[1]+" "+os.Args[2]]; found && err == nil {
			runtime.GOMAXPROCS(e.workers)
			fmt.Printf("ok %.4f GOMAXPROCS=%d\n", e.run(time.Duration(ms*1e6)), e.workers)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "usage: %s BENCH LIBRARY MILLISECONDS; see bench/common/case.h\n", os.Args[0])
	os.Exit(2)
}
