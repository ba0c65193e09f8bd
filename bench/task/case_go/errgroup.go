package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Groups of golang.org/x/sync/errgroup, the nearest that Go has to scopes.

// jobs are made once: a closure that is made for each start would take longer.
var jobs [children]func() error

func must(err error) {
	if err != nil {
		fail("the group failed: %v", err)
	}
}

// runGroup has groups without a context: they do less than groups with one.
func runGroup(budget time.Duration) float64 {
	return measure(budget, children, func(n int) {
		for round := 0; round < n; round++ {
			var group errgroup.Group
			for i := 0; i < children; i++ {
				group.Go(jobs[i])
			}
			must(group.Wait())
			checkResults()
		}
	})
}

func groupOfOne(ctx context.Context) {
	group, _ := errgroup.WithContext(ctx)
	group.Go(jobs[0])
	must(group.Wait())
	checkSum(results[0], 1)
	results[0] = 0
}

func runDeadline(budget time.Duration) float64 {
	return measure(budget, 1, func(n int) {
		for i := 0; i < n; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			groupOfOne(ctx)
			cancel()
		}
	})
}

func runNoDeadline(budget time.Duration) float64 {
	return measure(budget, 1, func(n int) {
		for i := 0; i < n; i++ {
			groupOfOne(context.Background())
		}
	})
}

func init() {
	for i := range jobs {
		i := i
		jobs[i] = func() error {
			results[i] = uint64(i) + 1
			return nil
		}
	}
	entries["scope-1000 go-errgroup"] = entry{1, runGroup}
	entries["scope-1000-2 go-errgroup"] = entry{2, runGroup}
	entries["scope-deadline go-errgroup"] = entry{1, runDeadline}
	entries["scope-deadline go-no-deadline"] = entry{1, runNoDeadline}
}
