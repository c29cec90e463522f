package foreign

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode"
)

// Limits for a downstream API server, which belongs to a user: how much it can make us read or store.
const (
	// listLimit is the maximum number of objects that List reads. It is used for one agent, which has only a few.
	listLimit = 20
	// answerLimit is the maximum length of a response in bytes.
	answerLimit = 1 << 20
	// headerLimit is the maximum length of the headers of a response in bytes. In memory they take up to thirty times as much.
	headerLimit = 64 << 10
	// saidLimit is the maximum length, in bytes, of an error with text from the server.
	saidLimit = 512
)

// Errors for responses that a real API server never sends.
var (
	// ErrAnswerTooLong means that a response of a downstream API server is longer than answerLimit.
	ErrAnswerTooLong = errors.New("the API server's response is longer than 1 MiB")
	// ErrRedirected means that a downstream API server sent a redirect. Following it would send the credential to
	// another server.
	ErrRedirected = errors.New("the API server sent a redirect, which is not followed")
)

// bounded sends a request. It limits the response to answerLimit and refuses redirects.
func bounded(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	switch {
	case response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest:
		err = ErrRedirected
	case response.ContentLength > answerLimit:
		err = ErrAnswerTooLong
	default:
		response.Body = &boundedBody{ReadCloser: response.Body, left: answerLimit}
		return response, nil
	}
	_ = response.Body.Close() // not read
	return nil, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one byte more, to detect a response that is too long
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrAnswerTooLong
	}
	return n, err
}

// boundedError is an error that contains text from a downstream API server. Its text is short and has one line.
type boundedError struct{ error }

func (s boundedError) Error() string { return Excerpt(s.error.Error(), saidLimit) }

func (s boundedError) Unwrap() error { return s.error }

// failed returns the classified error of a request to a downstream API server.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return boundedError{Classify(err)}
}

// Excerpt returns the beginning of a foreign text: at most limit bytes of valid UTF-8, with spaces in place of
// control characters and line breaks.
func Excerpt(text string, limit int) string {
	const more = "…"
	cut := len(text) > limit
	if cut {
		text = text[:limit-len(more)]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if cut {
		return text + more
	}
	return text
}
