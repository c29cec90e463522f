package kubetest

import (
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Recorder is an API server that records requests and returns prepared responses.
type Recorder struct {
	Mu       sync.Mutex
	Requests []string
	Answers  map[string]int // status code by "<method> <path>"; default 200
	Body     string         // of every successful response
}

func (r *Recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	body, _ := io.ReadAll(q.Body)
	line := q.Method + " " + q.URL.Path
	code := r.Answers[line]
	if q.URL.RawQuery != "" {
		line += "?" + q.URL.RawQuery
	}
	r.Requests = append(r.Requests, strings.TrimSpace(line+" "+string(body)))
	if code != 0 {
		Answer(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reasonOf(code)})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, r.Body)
}

func reasonOf(code int) metav1.StatusReason {
	return map[int]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	}[code]
}
