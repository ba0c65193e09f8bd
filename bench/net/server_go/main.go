// Goroutines and package net, the comparator of bench-net: one goroutine for each connection. GOMAXPROCS is 1.
//
// The command line and the answer are those of bench/net/server.h.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
)

func fail(err error) {
	fmt.Fprintf(os.Stderr, "check failed: %v\n", err)
	os.Exit(1)
}

func serve(conn net.Conn, room int) {
	defer conn.Close()
	buffer := make([]byte, room)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err = conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: %s LIBRARY BYTES", os.Args[0]))
	}
	bytes, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	room := 1024
	if bytes >= 512 {
		room = 2 * bytes
	}
	runtime.GOMAXPROCS(1)
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
