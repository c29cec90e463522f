package foreign

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode"
)

// Bounds of what a downstream API server, which is a user's, can make us read or write down.
const (
	// listLimit is how many objects List reads. It looks at one agent, which has a few.
	listLimit = 20
	// answerLimit is how long one answer may be, in bytes.
	answerLimit = 1 << 20
	// saidLimit is how much of an error in which a server had a part is kept, in bytes.
	saidLimit = 512
)

// Sentinels of answers that no API server gives.
var (
	// ErrAnswerTooLong means that a downstream API server answered with more than answerLimit.
	ErrAnswerTooLong = errors.New("the API server's answer is longer than 1 MiB")
	// ErrRedirected means that a downstream API server redirects. To follow it would hand the credential to another one.
	ErrRedirected = errors.New("the API server answers with a redirect, which is not followed")
)

// bounded is a way to an API server whose answers end at answerLimit, and lead nowhere else.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
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
	_ = response.Body.Close() // unread
	return nil, err
}

// WrappedRoundTripper lets the connections below be closed.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more tells an answer that is too long
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrAnswerTooLong
	}
	return n, err
}

// said is an error in which a downstream API server had a part. Its text is short and of one line.
type said struct{ error }

func (s said) Error() string { return Excerpt(s.error.Error(), saidLimit) }

func (s said) Unwrap() error { return s.error }

// failed is the error of a request to a downstream API server, classified.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return said{Classify(err)}
}

// Excerpt is the beginning of a text that comes from elsewhere: at most limit bytes of valid UTF-8, with blanks for
// what would control a terminal or begin a line.
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
