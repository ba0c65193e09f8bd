// Go's net/http, a comparator of bench-http. GOMAXPROCS is the number of workers. The file is served by http.ServeFile.
//
// The command line and the answer are those of bench/http/server.h.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

func fail(err error) {
	fmt.Fprintf(os.Stderr, "check failed: %v\n", err)
	os.Exit(1)
}

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: %s LIBRARY SITE WORKERS", os.Args[0]))
	}
	file := filepath.Join(os.Args[2], "16k")
	workers, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err)
	}
	runtime.GOMAXPROCS(workers)
	hello := []byte("hello, world\n")
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write(hello)
	})
	mux.HandleFunc("/16k", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		http.ServeFile(w, r, file)
	})
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	fail(http.Serve(listener, mux))
}
