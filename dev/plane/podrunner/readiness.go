package podrunner

import (
	"context"
	"net/http"
	"time"
)

const (
	// askWaiting and askReady are how often a process is asked while there is doubt, and while it is ready: seldom
	// enough that whoever measures what it takes does not measure the questions. A kubelet's default is 10 s.
	askWaiting = 20 * time.Millisecond
	askReady   = 500 * time.Millisecond
	// askTimeout is a kubelet's default.
	askTimeout = time.Second
	// failures in a row make a ready process unready, as with a kubelet.
	failures = 3
)

// watchReadiness asks http://<address>/readyz until ctx is done and tells every change; it takes for
// granted that the process is not ready at first. An answer that takes longer than the patience is a failure.
func watchReadiness(ctx context.Context, address string, patience time.Duration, tell func(ready bool)) {
	transport := &http.Transport{} // one of its own: connections end with the process
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	ready, failed := false, 0
	for {
		answer := isReady(ctx, client, address)
		switch {
		case ctx.Err() != nil:
			return // the answer says nothing
		case answer:
			failed = 0
			if !ready {
				ready = true
				tell(true)
			}
		case ready:
			failed++
			if failed == failures {
				ready = false
				tell(false)
			}
		}
		pause := askWaiting
		if ready && failed == 0 {
			pause = askReady
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func isReady(ctx context.Context, client *http.Client, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // unread: the answer is its status
	return response.StatusCode == http.StatusOK
}
