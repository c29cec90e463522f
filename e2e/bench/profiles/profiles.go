package profiles

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// sizeLimit is the size of the largest accepted profile in bytes. One of a busy API server has some 300 KiB.
const sizeLimit = 64 << 20

// Process is a process whose profile can be requested.
type Process struct {
	Name string
	// URL is the address of its server, without a path.
	URL string
	// Client sends the request, with credentials if the server wants some.
	Client *http.Client
}

// Profile is the profile of one process.
type Profile struct {
	Process string `json:"process"`
	// Seconds is the processor time in the profile.
	Seconds float64 `json:"cpuSeconds"`
	// File is the profile for `go tool pprof`.
	File string `json:"file"`
	Top
}

// Take takes a profile of all processes at the same time, and writes each to a file directory/process-label.pprof. It
// returns the profiles that it could take even if others failed.
func Take(ctx context.Context, processes []Process, length time.Duration, directory, label string) ([]Profile, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // figures, no secrets
		return nil, fmt.Errorf("creating the directory of profiles: %w", err)
	}
	taken, failed := make([]Profile, len(processes)), make([]error, len(processes))
	var all sync.WaitGroup
	for i, p := range processes {
		all.Go(func() {
			taken[i], failed[i] = p.take(ctx, length, filepath.Join(directory, p.Name+"-"+label+".pprof"))
		})
	}
	all.Wait()
	var profiles []Profile
	for i, err := range failed {
		if err != nil {
			return profiles, fmt.Errorf("taking a profile of %s: %w", processes[i].Name, err)
		}
		profiles = append(profiles, taken[i])
	}
	return profiles, nil
}

func (p Process) take(ctx context.Context, length time.Duration, file string) (Profile, error) {
	encoded, err := p.get(ctx, length)
	if err != nil {
		return Profile{}, err
	}
	if err := os.WriteFile(file, encoded, 0o644); err != nil { //nolint:gosec // figures, no secrets
		return Profile{}, fmt.Errorf("keeping the profile: %w", err)
	}
	decoded, err := profile.ParseData(encoded)
	if err != nil {
		return Profile{}, fmt.Errorf("decoding the profile: %w", err)
	}
	return Profile{Process: p.Name, Seconds: rounded(float64(total(decoded)) / float64(time.Second)), File: file, Top: TopOf(decoded)}, nil
}

func (p Process) get(ctx context.Context, length time.Duration) ([]byte, error) {
	url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", p.URL, int(length.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	response, err := p.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("requesting the profile: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the body was read
	var body bytes.Buffer
	if _, err := io.Copy(&body, io.LimitReader(response.Body, sizeLimit)); err != nil {
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("requesting the profile: %s: %s", response.Status, body.Bytes()[:min(body.Len(), 200)])
	}
	return body.Bytes(), nil
}
