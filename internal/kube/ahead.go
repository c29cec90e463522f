package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// tailSize is how much of a page's end is kept: the metadata of a list come last in JSON, and nothing in them is
	// longer than the token of the next page, which has the names of one object.
	tailSize = 4 << 10
	// aheadLife is how long a page waits for whoever asked for the one before it, and has perhaps given up.
	aheadLife = 30 * time.Second
)

// ahead asks for the next page of a list once one has been received, so that the API server makes it while that one is
// decoded. Nothing is asked for that would not be asked for anyway, and what cannot be had ahead is asked for again by
// whoever wants it.
//
//	page 1 ─► its last bytes name page 2 ─► asked for at once ─┐
//	       └► decoded ─► page 2 is asked for ──────────────────┴► the answer
//
// An answer waits unread, so no more of it is in memory than a connection lets a server send unasked.
type ahead struct {
	mu    sync.Mutex
	pages map[string]*nextPage
}

func newAhead() *ahead { return &ahead{pages: map[string]*nextPage{}} }

// nextPage is one that was asked for before anybody wanted it.
type nextPage struct {
	// answer gets the page, or nil where there was an error.
	answer chan *http.Response
	// forget ends the request, and the body of its answer.
	forget context.CancelFunc
}

// send answers a request, with the page that was asked for already where it is for one.
func (a *ahead) send(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	if !isForPage(request) {
		return next.RoundTrip(request)
	}
	answer, err := a.claim(request)
	if answer == nil && err == nil {
		answer, err = next.RoundTrip(request)
	}
	if err == nil && answer.StatusCode == http.StatusOK && isJSON(answer) {
		answer.Body = &page{ReadCloser: answer.Body, end: func(token string) { a.ask(next, request, token) }}
	}
	return answer, err
}

// isForPage says whether a request lists something page by page.
func isForPage(request *http.Request) bool {
	return request.Method == http.MethodGet && strings.Contains(request.URL.RawQuery, "limit=")
}

// isJSON says whether the metadata of a list come last.
func isJSON(answer *http.Response) bool {
	return strings.HasPrefix(answer.Header.Get("Content-Type"), runtime.ContentTypeJSON)
}

func keyOf(request *http.Request) string {
	return request.URL.String() + " " + request.Header.Get("Accept")
}

// claim is the page that a request is for, if it was asked for already and came.
func (a *ahead) claim(request *http.Request) (*http.Response, error) {
	found := a.take(keyOf(request), nil)
	if found == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	select {
	case answer := <-found.answer:
		if answer == nil {
			found.forget()
			return nil, nil //nolint:nilnil // it is asked for again, and that error counts
		}
		context.AfterFunc(request.Context(), found.forget)
		answer.Request = request
		return answer, nil
	case <-request.Context().Done():
		found.forget()
		return nil, request.Context().Err()
	}
}

// take takes a page out: any, or only this one.
func (a *ahead) take(key string, only *nextPage) *nextPage {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.pages[key]
	if found == nil || only != nil && found != only {
		return nil
	}
	delete(a.pages, key)
	return found
}

// ask asks for the page after one that was asked for with this request.
func (a *ahead) ask(next http.RoundTripper, before *http.Request, token string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(before.Context()))
	request := before.Clone(ctx)
	query := request.URL.Query()
	query.Set("continue", token)
	query.Del("resourceVersion") // the token has it
	query.Del("resourceVersionMatch")
	request.URL.RawQuery = query.Encode()
	key, asked := keyOf(request), &nextPage{answer: make(chan *http.Response, 1), forget: cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages[key] != nil {
		cancel() // two ask for the same
		return
	}
	a.pages[key] = asked
	time.AfterFunc(aheadLife, func() {
		if a.take(key, asked) != nil {
			cancel()
		}
	})
	go func() { asked.answer <- fetched(next, request) }()
}

// fetched is the answer to a request; nil where it is none that helps.
func fetched(next http.RoundTripper, request *http.Request) *http.Response {
	answer, err := next.RoundTrip(request)
	switch {
	case err != nil:
		return nil
	case answer.StatusCode != http.StatusOK:
		_ = answer.Body.Close() // nothing of it was read
		return nil
	}
	return answer
}

// page is the body of a list's page, of which the end is kept.
type page struct {
	io.ReadCloser
	tail []byte
	// end is called once, with the token of the next page, when all of this one was read.
	end func(token string)
}

func (p *page) Read(into []byte) (int, error) {
	n, err := p.ReadCloser.Read(into)
	p.tail = append(p.tail, into[max(0, n-tailSize):n]...)
	if beyond := len(p.tail) - tailSize; beyond > 0 {
		p.tail = p.tail[:copy(p.tail, p.tail[beyond:])]
	}
	if err == io.EOF && p.end != nil {
		if token := continuesWith(p.tail); token != "" {
			p.end(token)
		}
		p.end = nil
	}
	return n, err
}

// continuesWith is the token of the next page, in the metadata that are the last field of a list; empty where there are
// none.
func continuesWith(tail []byte) string {
	const field = `"metadata":`
	at := bytes.LastIndex(tail, []byte(field))
	if at < 1 || tail[at-1] != ',' && tail[at-1] != '{' { // an escaped quotation mark begins no name
		return ""
	}
	var meta metav1.ListMeta
	decoder := json.NewDecoder(bytes.NewReader(tail[at+len(field):]))
	if err := decoder.Decode(&meta); err != nil {
		return ""
	}
	rest := tail[at+len(field)+int(decoder.InputOffset()):]
	if string(bytes.TrimSpace(rest)) != "}" {
		return "" // those of an object, or of something else within it
	}
	return meta.Continue
}
