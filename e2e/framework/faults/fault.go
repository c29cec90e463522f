package faults

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrLost is the error of a lost connection for a client in this process. A process behind a Proxy sees its
// connection reset. ErrLost wraps ECONNRESET, as the real error does.
var ErrLost = fmt.Errorf("faults: connection lost: %w", syscall.ECONNRESET)

// Fault handles a request. It calls next to send the request to the server. A fault that does not call next keeps
// the request from the server.
type Fault func(request *http.Request, about Request, next func() (*http.Response, error)) (*http.Response, error)

// Answer returns an error response with this code and its reason. The request does not reach the server.
func Answer(code int) Fault {
	return func(request *http.Request, about Request, _ func() (*http.Response, error)) (*http.Response, error) {
		discard(request)
		return response(request, code, refusal(code, about)), nil
	}
}

// ExpiredWatch answers a watch as an API server that no longer has the resource version: with code 200 and one
// event with code 410.
func ExpiredWatch() Fault {
	return func(request *http.Request, about Request, _ func() (*http.Response, error)) (*http.Response, error) {
		event := struct {
			Type   string        `json:"type"`
			Object metav1.Status `json:"object"`
		}{"ERROR", refusal(http.StatusGone, about)}
		return response(request, http.StatusOK, event), nil
	}
}

// Untrusted acts as a server with a certificate of an unknown CA. Behind a Proxy use Proxy.Impersonate.
func Untrusted() Fault {
	return func(request *http.Request, _ Request, _ func() (*http.Response, error)) (*http.Response, error) {
		discard(request)
		return nil, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	}
}

// LostBefore loses the connection before the request reaches the server.
func LostBefore() Fault {
	return func(request *http.Request, _ Request, _ func() (*http.Response, error)) (*http.Response, error) {
		discard(request)
		return nil, ErrLost
	}
}

// LostAfter loses the connection after the server has processed the request, so that the client does not receive
// the response.
func LostAfter() Fault {
	return func(_ *http.Request, _ Request, next func() (*http.Response, error)) (*http.Response, error) {
		if answer, err := next(); err == nil {
			_ = answer.Body.Close() // the response is not read
		}
		return nil, ErrLost
	}
}

// Silent never answers. It ends when the client cancels the request. The request does not reach the server.
func Silent() Fault {
	return func(request *http.Request, _ Request, _ func() (*http.Response, error)) (*http.Response, error) {
		discard(request)
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
}

// Held delays a request until release is closed.
func Held(release <-chan struct{}) Fault {
	return func(request *http.Request, _ Request, next func() (*http.Response, error)) (*http.Response, error) {
		select {
		case <-release:
			return next()
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
}

// Slow delays each request by this time.
func Slow(by time.Duration) Fault {
	return func(request *http.Request, about Request, next func() (*http.Response, error)) (*http.Response, error) {
		late := make(chan struct{})
		timer := time.AfterFunc(by, func() { close(late) })
		defer timer.Stop()
		return Held(late)(request, about, next)
	}
}

// Before calls do before the request is sent to the server.
func Before(do func(Request)) Fault {
	return func(_ *http.Request, about Request, next func() (*http.Response, error)) (*http.Response, error) {
		do(about)
		return next()
	}
}

// After calls do when the server has answered and the client has not received the response yet. do gets the
// response's code and may kill the client.
func After(do func(about Request, code int)) Fault {
	return func(_ *http.Request, about Request, next func() (*http.Response, error)) (*http.Response, error) {
		answer, err := next()
		if err == nil {
			do(about, answer.StatusCode)
		}
		return answer, err
	}
}

// SilentBody answers, but sends no body. This is a watch whose connection is dead without an error.
func SilentBody() Fault {
	return func(request *http.Request, _ Request, next func() (*http.Response, error)) (*http.Response, error) {
		answer, err := next()
		if err != nil {
			return nil, err
		}
		_ = answer.Body.Close() // the body is not read
		answer.Body, answer.ContentLength = &silence{request: request, closed: make(chan struct{})}, -1
		answer.Header.Del("Content-Length")
		return answer, nil
	}
}

// silence is a body that never returns data.
type silence struct {
	request *http.Request
	closed  chan struct{}
}

func (s *silence) Read([]byte) (int, error) {
	select {
	case <-s.closed:
		return 0, errors.New("faults: read after close")
	case <-s.request.Context().Done():
		return 0, s.request.Context().Err()
	}
}

func (s *silence) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// discard closes the body of a request that is not sent, as a RoundTripper must.
func discard(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // the body is not read
	}
}

// refusal returns the Status object of an API server for this code.
func refusal(code int, about Request) metav1.Status {
	reasons := map[int]metav1.StatusReason{
		http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusGone: metav1.StatusReasonExpired, http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: "faults: " + about.String() + ": " + http.StatusText(code),
		Details: &metav1.StatusDetails{Group: about.Group, Kind: about.Resource, Name: about.Name},
	}
}

func response(request *http.Request, code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte(err.Error()) // all our Status objects can be encoded
	}
	answer := &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		answer.Header.Set("Retry-After", "1")
	}
	return answer
}
