package rollout_test

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
)

// lag is how much later than it might the controllers' cache learns of BundleDeployments: a cache lags always, and here
// longer than an answer to a write takes.
const lag = 50 * time.Millisecond

// late lets everything that a watch tells arrive later by lag.
func late(_ *http.Request, _ faults.Request, next func() (*http.Response, error)) (*http.Response, error) {
	answer, err := next()
	if err != nil {
		return nil, err
	}
	body := &lateBody{body: answer.Body, pieces: make(chan piece, 10_000), closed: make(chan struct{})}
	go body.fill()
	answer.Body = body
	return answer, nil
}

// piece is what came at a time.
type piece struct {
	due  time.Time
	text []byte
	err  error
}

type lateBody struct {
	body   io.ReadCloser
	pieces chan piece
	now    piece
	once   sync.Once
	closed chan struct{}
}

func (b *lateBody) fill() {
	for {
		text := make([]byte, 32<<10)
		n, err := b.body.Read(text)
		select {
		case b.pieces <- piece{due: time.Now().Add(lag), text: text[:n], err: err}:
		case <-b.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read waits until a piece is due.
func (b *lateBody) Read(p []byte) (int, error) {
	if len(b.now.text) == 0 && b.now.err == nil {
		select {
		case b.now = <-b.pieces:
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
		timer := time.NewTimer(time.Until(b.now.due))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, b.now.text)
	b.now.text = b.now.text[n:]
	if len(b.now.text) == 0 {
		return n, b.now.err
	}
	return n, nil
}

// Close ends the watch.
func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.body.Close()
}
