package controller

import (
	"net/http"
	"net/http/pprof"
)

// profiles serves what the process does and what its memory holds, at the paths that `go tool pprof` knows. The command
// line and symbols are left out: every profile contains the names of its functions.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, name := range []string{"allocs", "goroutine", "heap"} {
		mux.Handle("GET /debug/pprof/"+name, pprof.Handler(name))
	}
	return mux
}
