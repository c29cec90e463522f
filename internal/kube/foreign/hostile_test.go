package foreign

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestRedirect_IsNotFollowed(t *testing.T) {
	var mu sync.Mutex
	var handedOver []string
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		handedOver = append(handedOver, r.Header.Get("Authorization"))
		http.NotFound(w, r)
	}))
	t.Cleanup(elsewhere.Close)
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			server := httptest.NewTLSServer(http.RedirectHandler(elsewhere.URL+"/taken", code))
			t.Cleanup(server.Close)
			d, err := New(&rest.Config{Host: server.URL, BearerToken: "s3cr3t", TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			_, err = d.ServerVersion(t.Context())
			if !errors.Is(err, ErrRedirected) || errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "taken") {
				t.Errorf("error %v", err)
			}
			if err := d.Apply(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); !errors.Is(err, ErrRedirected) {
				t.Errorf("error %v", err)
			}
		})
	}
	if len(handedOver) > 0 {
		t.Errorf("another server was handed the credentials %q", handedOver)
	}
}

// counted counts what is read from a connection.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func TestLongAnswer_IsReadUpToTheLimit(t *testing.T) {
	long := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"` + strings.Repeat("a", 8<<20) + `"}}`)
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(long); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	// What TLS and the buffers on the way may read ahead.
	const ahead = 64 << 10
	tests := map[string]struct {
		send func(w http.ResponseWriter)
		most int64
	}{
		"without a length": {most: answerLimit + ahead, send: func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(long)
		}},
		"with its length": {most: ahead, send: func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			_, _ = w.Write(long)
		}},
		"compressed": {most: ahead, send: func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				test.send(w)
			}))
			server.EnableHTTP2 = true // which reads ahead, unless it is not spoken
			server.StartTLS()
			t.Cleanup(server.Close)
			var read atomic.Int64
			d, err := New(&rest.Config{
				Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)},
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
					return counted{connection, &read}, err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.Close)
			_, err = d.Find(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}})
			if !errors.Is(err, ErrAnswerTooLong) || errors.Is(err, ErrUnreachable) {
				t.Errorf("error %v", err)
			}
			if got := read.Load(); got > test.most {
				t.Errorf("%d bytes were read, want at most %d", got, test.most)
			}
		})
	}
}

func TestLongHeaders_AreReadUpToTheLimit(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 8 << 10 {
			w.Header().Set(fmt.Sprintf("A%d", i), strings.Repeat("a", 1<<10))
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	var read atomic.Int64
	cfg := &rest.Config{
		Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return counted{connection, &read}, err
		},
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	for name, ask := range map[string]func() error{
		"request": func() error {
			_, err := d.ServerVersion(t.Context())
			return err
		},
		"check whether anything responds": func() error { return Reach(t.Context(), cfg, time.Minute) },
	} {
		read.Store(0)
		if err := ask(); err == nil || !strings.Contains(err.Error(), "headers exceeded") {
			t.Errorf("%s: error %v", name, err)
		}
		if got := read.Load(); got > 4*headerLimit {
			t.Errorf("%s: %d bytes were read", name, got)
		}
	}
}

func TestWhatAServerSays_IsCut(t *testing.T) {
	message := "no\x1b[31m\nlevel=error msg=forged \u202e\xff" + strings.Repeat("é", 10000)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
		})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "`+strings.Repeat("forged ", 100)+`"`)
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	var warnings warned
	rest.SetDefaultWarningHandler(&warnings)
	t.Cleanup(func() { rest.SetDefaultWarningHandler(rest.WarningLogger{}) })
	d, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	_, found := d.Find(t.Context(), object)
	_, uid := d.NamespaceUID(t.Context(), "n")
	_, version := d.ServerVersion(t.Context())
	for what, err := range map[string]error{
		"find": found, "uid": uid, "version": version, "apply": d.Apply(t.Context(), object), "remove": d.Remove(t.Context(), object),
		"replace": d.Replace(t.Context(), object), "list": d.List(t.Context(), "n", "a=b", &corev1.PodList{}), "pods": d.RemovePods(t.Context(), "n", "a=b"),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: error %.200v", what, err)
			continue
		}
		if text := err.Error(); len(text) > saidLimit+100 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %d bytes: %.200q", what, len(text), text)
		}
	}
	if n := warnings.Load(); n > 0 {
		t.Errorf("%d warnings of the server are logged", n)
	}
}

func TestWhatAServerSaysInPlaceOfAnObject_IsCut(t *testing.T) {
	long := strings.Repeat("x\n", 100000)
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" { // Reach
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = connection.Write([]byte("NOT HTTP " + strings.Repeat("x", 1<<20) + "\r\n\r\n"))
				_ = connection.Close()
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","creationTimestamp":` + string(quoted) + `}}`))
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	_, found := d.Find(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}})
	for what, err := range map[string]error{"find": found, "reach": Reach(t.Context(), cfg, time.Minute)} {
		if err == nil || len(err.Error()) > saidLimit+100 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %.300q", what, fmt.Sprint(err))
		}
	}
}

type warned struct{ atomic.Int64 }

func (w *warned) HandleWarningHeader(int, string, string) { w.Add(1) }

func TestExcerpt(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"short":                 "short",
		"exactly ten"[:10]:      "exactly te",
		"a\nb\tc\x00\x7f\u200f": "a b c   ",
		"\xffa\xc3":             "a",
		"eleven long":           "eleven …",
		"sixéé€€€":              "sixéé…",
	} {
		if got := Excerpt(in, 10); got != want || len(got) > 10 {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := fmt.Sprint(failed(nil)); got != "<nil>" {
		t.Errorf("no error became %s", got)
	}
}
