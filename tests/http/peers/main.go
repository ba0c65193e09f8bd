// Go's net/http, set up as tests/http/server.c is: hello at /, probe at /probe, an echo of POST at /echo, files at /files/.
// It prints "port N" and ends when its standard input ends. The head of a request may have 16 KiB, its body 1 MiB.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

const bodyMost = 1 << 20

// only answers 405 unless the method is one of these.
func only(h http.HandlerFunc, allow string, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, m := range methods {
			if r.Method == m {
				h(w, r)
				return
			}
		}
		w.Header().Set("Allow", allow)
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	}
}

func says(path, text string) http.HandlerFunc {
	return only(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, text)
	}, "GET, HEAD", "GET", "HEAD")
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMost))
	if _, isLarge := err.(*http.MaxBytesError); isLarge {
		http.Error(w, "Content Too Large", http.StatusRequestEntityTooLarge)
	} else if err != nil {
		http.Error(w, "Bad Request", http.StatusBadRequest)
	} else {
		w.Header().Set("Content-Type", "text/plain")
		w.Write(body)
	}
}

func main() {
	log.SetOutput(io.Discard) // net/http logs what clients do wrong
	mux := http.NewServeMux()
	mux.HandleFunc("/", says("/", "hello\n"))
	mux.HandleFunc("/probe", says("/probe", "probe\n"))
	mux.HandleFunc("/echo", only(echo, "POST", "POST"))
	files := http.StripPrefix("/files/", http.FileServer(http.Dir(os.Args[1])))
	mux.HandleFunc("/files/", only(files.ServeHTTP, "GET, HEAD", "GET", "HEAD"))
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	server := http.Server{Handler: mux, MaxHeaderBytes: 16 << 10}
	go server.Serve(listener)
	io.ReadAll(os.Stdin)
}
