package podrunner

import (
	"context"
	"net/http"
	"time"
)

const (
	// askWaiting and askReady are the intervals between probes of an unready and of a ready process. Probes of a
	// ready process are rare, so that they do not distort measurements. Kubelet's default is 10 s.
	askWaiting = 20 * time.Millisecond
	askReady   = 500 * time.Millisecond
	// askTimeout is kubelet's default timeout.
	askTimeout = time.Second
	// failures is the number of consecutive failed probes that make a ready process unready, as with kubelet.
	failures = 3
)

// watchReadiness requests http://<address>/readyz until ctx is done and calls tell at each change. It assumes
// that the process is not ready at first. A response that takes longer than patience is a failure.
func watchReadiness(ctx context.Context, address string, patience time.Duration, tell func(ready bool)) {
	transport := &http.Transport{} // its own transport, so that its connections can be closed at the end
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	ready, failed := false, 0
	for {
		answer := isReady(ctx, client, address)
		switch {
		case ctx.Err() != nil:
			return // the probe was cancelled, so its result means nothing
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
	_ = response.Body.Close() // only the status is needed
	return response.StatusCode == http.StatusOK
}
