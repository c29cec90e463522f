package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shelf is a server of pages, each a body by the token it is asked for with, and tells of each request.
type shelf struct {
	pages map[string]string
	// fails are answers that are no page, by token; 0 is a connection that is lost. Each is given once.
	fails map[string]int
	media string
	asked chan *http.Request
	// closed are the tokens of pages whose bodies were closed.
	closed chan string
}

func newShelf() *shelf {
	return &shelf{
		pages: map[string]string{
			"":    `{"items":[{"metadata":{"name":"a"}}],"kind":"List","metadata":{"continue":"b&c","resourceVersion":"7"}}` + "\n",
			"b&c": `{"items":[{"metadata":{"name":"b"}}],"kind":"List","metadata":{"continue":"d","resourceVersion":"7"}}`,
			"d":   `{"items":[{"metadata":{"name":"d"}}],"kind":"List","metadata":{"resourceVersion":"7"}}`,
		},
		fails: map[string]int{}, media: "application/json", asked: make(chan *http.Request, 9), closed: make(chan string, 9),
	}
}

func (s *shelf) RoundTrip(request *http.Request) (*http.Response, error) {
	token := request.URL.Query().Get("continue")
	status, failing := s.fails[token]
	delete(s.fails, token)
	s.asked <- request
	if failing && status == 0 {
		return nil, errors.New("connection lost")
	}
	if !failing {
		status = http.StatusOK
	}
	body := shelved{strings.NewReader(s.pages[token]), request.Context().Err, func() { s.closed <- token }}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {s.media}}, Request: request, Body: body}, nil
}

// shelved is a body that ends with its request.
type shelved struct {
	io.Reader
	ended func() error
	close func()
}

func (s shelved) Read(into []byte) (int, error) {
	if err := s.ended(); err != nil {
		return 0, err
	}
	return s.Reader.Read(into)
}

func (s shelved) Close() error {
	s.close()
	return nil
}

// reader reads pages as a cache does.
type reader struct {
	t    *testing.T
	wire http.RoundTripper
}

func (s *shelf) read(t *testing.T) reader {
	pages := newAhead()
	return reader{t, roundTripper{s, pages.send}}
}

func pageQuery(token string) url.Values {
	query := url.Values{"limit": {"500"}}
	if token != "" {
		query.Set("continue", token)
	}
	return query
}

func (r reader) begin(ctx context.Context, query url.Values) (*http.Response, error) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub/apis/x?"+query.Encode(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.wire.RoundTrip(request)
}

// page is one page to its end.
func (r reader) page(query url.Values) string {
	r.t.Helper()
	answer, err := r.begin(r.t.Context(), query)
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// expectAsked waits for a request with this query.
func (s *shelf) expectAsked(t *testing.T, want url.Values) {
	t.Helper()
	select {
	case request := <-s.asked:
		if diff := cmp.Diff(want, request.URL.Query()); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	case <-time.After(time.Minute):
		t.Fatal("waiting for a request")
	}
}

func (s *shelf) expectCalm(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case request := <-s.asked:
		t.Errorf("asked for %s", request.URL)
	default:
	}
}

func TestThePageAfterIsAskedForAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newShelf()
		client := server.read(t)
		first := pageQuery("")
		first.Set("resourceVersion", "5")
		first.Set("resourceVersionMatch", "NotOlderThan")
		first.Set("labelSelector", "a=b")
		got := client.page(first)
		server.expectAsked(t, first)
		second := pageQuery("b&c")
		second.Set("labelSelector", "a=b")
		server.expectAsked(t, second) // though nobody wants it yet
		server.expectCalm(t)
		got += client.page(second)
		third := pageQuery("d")
		third.Set("labelSelector", "a=b")
		server.expectAsked(t, third)
		got += client.page(third)
		server.expectCalm(t)
		if want := server.pages[""] + server.pages["b&c"] + server.pages["d"]; got != want {
			t.Errorf("read %s, want %s", got, want)
		}
	})
}

func TestFailedPrefetch_PageIsRequestedAgain(t *testing.T) {
	for name, status := range map[string]int{"a lost connection": 0, "an expired token": http.StatusGone, "a busy server": http.StatusTooManyRequests} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newShelf()
				server.fails["b&c"] = status
				client := server.read(t)
				client.page(pageQuery(""))
				server.expectAsked(t, pageQuery(""))
				server.expectAsked(t, pageQuery("b&c"))
				server.expectCalm(t)
				<-server.closed // the first page
				if status != 0 && len(server.closed) != 1 {
					t.Error("the body of an answer in an error stays open")
				}
				if got := client.page(pageQuery("b&c")); got != server.pages["b&c"] {
					t.Errorf("read %s", got)
				}
				server.expectAsked(t, pageQuery("b&c"))
			})
		})
	}
}

func TestWhatIsNotAskedForAhead(t *testing.T) {
	whole := func(r reader, query url.Values) { r.page(query) }
	tests := map[string]struct {
		change func(*shelf)
		query  url.Values
		read   func(reader, url.Values)
	}{
		"a list that has no pages":    {nil, url.Values{"resourceVersion": {"0"}}, whole},
		"after the last page":         {nil, pageQuery("d"), whole},
		"after a page in protobuf":    {func(s *shelf) { s.media = "application/vnd.kubernetes.protobuf" }, pageQuery(""), whole},
		"after an answer in an error": {func(s *shelf) { s.fails[""] = http.StatusGone }, pageQuery(""), whole},
		"after a page that was not read": {nil, pageQuery(""), func(r reader, query url.Values) {
			answer, err := r.begin(r.t.Context(), query)
			if err != nil {
				r.t.Fatal(err)
			}
			if _, err := answer.Body.Read(make([]byte, 9)); err != nil {
				r.t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil {
				r.t.Fatal(err)
			}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newShelf()
				if test.change != nil {
					test.change(server)
				}
				test.read(server.read(t), test.query)
				server.expectAsked(t, test.query)
				server.expectCalm(t)
			})
		})
	}
}

// Two caches may fill themselves with the same: each page that is asked for ahead is for one of them.
func TestTwoReadersOfTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newShelf()
		client := server.read(t)
		for range 2 {
			client.page(pageQuery(""))
			server.expectAsked(t, pageQuery(""))
		}
		server.expectAsked(t, pageQuery("b&c"))
		server.expectCalm(t)
		for range 2 {
			if got := client.page(pageQuery("b&c")); got != server.pages["b&c"] {
				t.Errorf("read %s", got)
			}
		}
	})
}

func TestUnclaimedPage_IsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newShelf()
		client := server.read(t)
		client.page(pageQuery(""))
		server.expectAsked(t, pageQuery(""))
		request := <-server.asked
		<-time.After(aheadLife - time.Second)
		if err := request.Context().Err(); err != nil {
			t.Errorf("forgotten early: %v", err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if request.Context().Err() == nil {
			t.Error("it is still there")
		}
		client.page(pageQuery("b&c"))
		server.expectAsked(t, pageQuery("b&c"))
	})
}

// A page that is asked for ahead outlives the request before it, and ends with the one it is for.
func TestPrefetch_EndsWithTheRequestItIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newShelf()
		client := server.read(t)
		before, end := context.WithCancel(t.Context())
		answer, err := client.begin(before, pageQuery(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); err != nil {
			t.Fatal(err)
		}
		end()
		wanting, giveUp := context.WithCancel(t.Context())
		answer, err = client.begin(wanting, pageQuery("b&c"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := answer.Body.Read(make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
		giveUp()
		synctest.Wait()
		if _, err := answer.Body.Read(make([]byte, 9)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestContinuesWith(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for name, test := range map[string]struct{ page, want string }{
		"a page":                         {`{"items":[],"metadata":{"continue":"t","remainingItemCount":9}}`, "t"},
		"after white space":              {`{"items":[], "metadata":{"continue":"t"}}`, ""},
		"and a line's end":               {`{"items":[],"metadata":{"continue":"t"}}` + "\n", "t"},
		"a long token":                   {`{"items":[],"metadata":{"continue":"` + long + `"}}`, long},
		"the last page":                  {`{"items":[],"metadata":{"resourceVersion":"7"}}`, ""},
		"metadata of an object":          {`{"metadata":{},"items":[{"metadata":{"continue":"t"}}]}`, ""},
		"of something in its last field": {`{"items":[],"z":{"metadata":{"continue":"t"}}}`, ""},
		"metadata that are not the last": {`{"metadata":{"continue":"t"},"items":[]}`, ""},
		"in a string":                    {`{"a":"\"metadata\":{\"continue\":\"t\"}}"}`, ""},
		"in a name":                      {`{"a\"metadata":{"continue":"t"}}`, ""},
		"half of them":                   {`{"items":[],"metadata":{"continue":"t`, ""},
		"no object":                      {`"metadata":7}`, ""},
		"nothing":                        {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := continuesWith([]byte(test.page)); got != test.want {
				t.Errorf("continues with %q, want %q", got, test.want)
			}
		})
	}
}

// What is found at the end of a page is what whoever decodes all of it finds.
func FuzzContinuesWith(f *testing.F) {
	f.Add(`{"items":[],"metadata":{"continue":"t","remainingItemCount":9}}`)
	f.Add(`{"items":[{"metadata":{"continue":"t"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := continuesWith([]byte(text))
		var list map[string]json.RawMessage
		if got == "" || json.Unmarshal([]byte(text), &list) != nil {
			return
		}
		var meta struct{ Continue string }
		if err := json.Unmarshal(list["metadata"], &meta); err != nil || meta.Continue != got {
			t.Errorf("continues with %q, decoded %q, %v", got, meta.Continue, err)
		}
	})
}
