package main

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Goroutines, channels, sync.WaitGroup and context, the comparators of bench-task that Go brings along.

var (
	all     sync.WaitGroup
	waiting int
)

func runSpawnJoin(budget time.Duration) float64 {
	done := make(chan uint64)
	return measure(budget, 1, func(n int) {
		var sum uint64
		for i := 0; i < n; i++ {
			v := uint64(i)
			go func() { done <- v + 1 }()
			sum += <-done
		}
		checkSum(sum, pingpongSum(n))
	})
}

// runFuture makes a channel for each value, with room for it: the goroutine ends whether anybody receives or not.
func runFuture(budget time.Duration) float64 {
	return measure(budget, 1, func(n int) {
		var sum uint64
		for i := 0; i < n; i++ {
			v := uint64(i)
			future := make(chan uint64, 1)
			go func() { future <- v + 1 }()
			sum += <-future
		}
		checkSum(sum, pingpongSum(n))
	})
}

// leaveResult is a plain function of one argument: starting a closure takes longer.
func leaveResult(i int) {
	results[i] = uint64(i) + 1
	all.Done()
}

func runWaitGroup(budget time.Duration) float64 {
	return measure(budget, children, func(n int) {
		for round := 0; round < n; round++ {
			all.Add(children)
			for i := 0; i < children; i++ {
				go leaveResult(i)
			}
			all.Wait()
			checkResults()
		}
	})
}

func waitForCancel(ctx context.Context, i int) {
	waiting++
	<-ctx.Done()
	leaveResult(i)
}

// cancelAll returns how long the cancel took until all have ended. GOMAXPROCS is 1, so `waiting` needs no lock, and a
// goroutine that has counted itself waits, or is about to.
func cancelAll() time.Duration {
	waiting = 0
	ctx, cancel := context.WithCancel(context.Background())
	all.Add(children)
	for i := 0; i < children; i++ {
		go waitForCancel(ctx, i)
	}
	for waiting < children {
		runtime.Gosched()
	}
	start := time.Now()
	cancel()
	all.Wait()
	took := time.Since(start)
	checkResults()
	return took
}

func init() {
	entries["spawn-join go"] = entry{1, runSpawnJoin}
	entries["scope-1000 go-waitgroup"] = entry{1, runWaitGroup}
	entries["scope-1000-2 go-waitgroup"] = entry{2, runWaitGroup}
	entries["cancel-1000 go-context"] = entry{1, func(budget time.Duration) float64 {
		return measurePrepared(budget, children, cancelAll)
	}}
	entries["task-await go-future"] = entry{1, runFuture}
	entries["task-await-2 go-future"] = entry{2, runFuture}
}
