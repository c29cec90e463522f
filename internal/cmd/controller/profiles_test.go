package controller

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/pprof/profile"
)

func TestProfiles(t *testing.T) {
	tests := map[string]struct {
		path string
		code int
	}{
		"of the memory":         {"/debug/pprof/heap", http.StatusOK},
		"of the goroutines":     {"/debug/pprof/goroutine", http.StatusOK},
		"the command line: no":  {"/debug/pprof/cmdline", http.StatusNotFound},
		"the list of them: no":  {"/debug/pprof/", http.StatusNotFound},
		"nothing else: nothing": {"/metrics", http.StatusNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			profiles().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, test.path, nil))
			if answer.Code != test.code {
				t.Fatalf("got %d", answer.Code)
			}
			if test.code != http.StatusOK {
				return
			}
			if _, err := profile.Parse(answer.Body); err != nil {
				t.Error(err)
			}
		})
	}
}
