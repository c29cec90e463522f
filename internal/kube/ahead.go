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
	// tailSize is how many bytes of a page's end are kept. In JSON, a list's metadata come last, and their longest
	// part is the continue token, which contains the key of one object.
	tailSize = 4 << 10
	// aheadLife is how long a prefetched page waits for its caller, which may have given up.
	aheadLife = 30 * time.Second
)

// ahead prefetches the next page of a list, so that the API server prepares it while the current page is
// decoded. It prefetches only pages that the caller will request. If a prefetch fails, the caller requests the
// page itself.
//
//	page 1 ─► its last bytes contain the continue token ─► page 2 is prefetched ─┐
//	       └► decoded ─► page 2 is requested ────────────────────────────────────┴► the response
//
// The body of a prefetched response is not read, so memory holds only what a connection buffers.
type ahead struct {
	mu    sync.Mutex
	pages map[string]*nextPage
}

func newAhead() *ahead { return &ahead{pages: map[string]*nextPage{}} }

// nextPage is a prefetched page.
type nextPage struct {
	// answer receives the page, or nil after an error.
	answer chan *http.Response
	// forget cancels the request and the body of its response.
	forget context.CancelFunc
}

// send sends a request, or returns the prefetched page for it.
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

// isForPage reports whether a request lists page by page.
func isForPage(request *http.Request) bool {
	return request.Method == http.MethodGet && strings.Contains(request.URL.RawQuery, "limit=")
}

// isJSON reports whether a list's metadata come last.
func isJSON(answer *http.Response) bool {
	return strings.HasPrefix(answer.Header.Get("Content-Type"), runtime.ContentTypeJSON)
}

func keyOf(request *http.Request) string {
	return request.URL.String() + " " + request.Header.Get("Accept")
}

// claim returns the prefetched page for a request, or nil if there is no usable page.
func (a *ahead) claim(request *http.Request) (*http.Response, error) {
	found := a.take(keyOf(request), nil)
	if found == nil {
		return nil, nil //nolint:nilnil // not prefetched
	}
	select {
	case answer := <-found.answer:
		if answer == nil {
			found.forget()
			return nil, nil //nolint:nilnil // the request is sent again, and its error is returned
		}
		context.AfterFunc(request.Context(), found.forget)
		answer.Request = request
		return answer, nil
	case <-request.Context().Done():
		found.forget()
		return nil, request.Context().Err()
	}
}

// take removes a page from the map: any page with the key, or only this one.
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

// ask prefetches the page after the one of this request.
func (a *ahead) ask(next http.RoundTripper, before *http.Request, token string) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(before.Context()))
	request := before.Clone(ctx)
	query := request.URL.Query()
	query.Set("continue", token)
	query.Del("resourceVersion") // the token contains it
	query.Del("resourceVersionMatch")
	request.URL.RawQuery = query.Encode()
	key, asked := keyOf(request), &nextPage{answer: make(chan *http.Response, 1), forget: cancel}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages[key] != nil {
		cancel() // two lists prefetch the same page
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

// fetched sends a request and returns the response, or nil if it is not usable.
func fetched(next http.RoundTripper, request *http.Request) *http.Response {
	answer, err := next.RoundTrip(request)
	switch {
	case err != nil:
		return nil
	case answer.StatusCode != http.StatusOK:
		_ = answer.Body.Close() // nothing was read
		return nil
	}
	return answer
}

// page is the body of a list's page. It keeps the end of the text.
type page struct {
	io.ReadCloser
	tail []byte
	// end is called once, with the continue token, when the page was read completely.
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

// continuesWith returns the continue token in the metadata, which are the last field of a list, or an empty
// string.
func continuesWith(tail []byte) string {
	const field = `"metadata":`
	at := bytes.LastIndex(tail, []byte(field))
	if at < 1 || tail[at-1] != ',' && tail[at-1] != '{' { // an escaped quotation mark does not start a name
		return ""
	}
	var meta metav1.ListMeta
	decoder := json.NewDecoder(bytes.NewReader(tail[at+len(field):]))
	if err := decoder.Decode(&meta); err != nil {
		return ""
	}
	rest := tail[at+len(field)+int(decoder.InputOffset()):]
	if string(bytes.TrimSpace(rest)) != "}" {
		return "" // metadata of an object, or of something nested
	}
	return meta.Continue
}
