// Goroutines and package net, the comparator of bench-net: one goroutine for each connection. GOMAXPROCS is the number of
// workers.
//
// The command line and the answer are those of bench/net/server.h.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func fail(err error) {
	fmt.Fprintf(os.Stderr, "check failed: %v\n", err)
	os.Exit(1)
}

// What a message takes; see server_work in bench/net/server.h.
var workUs, sleepMs int

var sink uint64

func work(us int) {
	x := uint64(88172645463325252)
	for left := us * (3000 / 6); left > 0; left-- {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		sink = x // never: it is to be computed
	}
}

func serve(conn net.Conn, room int) {
	defer conn.Close()
	buffer := make([]byte, room)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if workUs > 0 {
			work(workUs)
		} else if sleepMs > 0 {
			time.Sleep(time.Duration(sleepMs) * time.Millisecond)
		}
		if _, err = conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func main() {
	if len(os.Args) != 3 && len(os.Args) != 5 {
		fail(fmt.Errorf("usage: %s LIBRARY BYTES [WORKERS HANDLER]", os.Args[0]))
	}
	bytes, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	room := 1024
	if bytes >= 512 {
		room = 2 * bytes
	}
	workers := 1
	if len(os.Args) == 5 {
		if workers, err = strconv.Atoi(os.Args[3]); err != nil {
			fail(err)
		}
		if os.Args[4] == "sleep" {
			sleepMs = 1
		} else if strings.HasPrefix(os.Args[4], "cpu") {
			if workUs, err = strconv.Atoi(os.Args[4][3:]); err != nil {
				fail(err)
			}
		}
	}
	runtime.GOMAXPROCS(workers)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := listener.Accept()
		if err != nil {
			fail(err)
		}
		go serve(conn, room)
	}
}
