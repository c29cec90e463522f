package machine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// AwaitURL is the command await: it waits until a URL answers with status 200. caFile, if it is set, has the
// certificates to trust.
func AwaitURL(ctx context.Context, url, caFile string, atMost time.Duration) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		content, err := os.ReadFile(caFile)
		if err != nil {
			return fmt.Errorf("reading the CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return fmt.Errorf("the file %s contains no certificate", caFile)
		}
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := ask(ctx, client, url)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // later errors only report the timeout
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer with status 200 within %s: %w", url, atMost, last)
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close() // the status is enough
	if response.StatusCode != http.StatusOK {
		return errors.New("it answered with status " + response.Status)
	}
	return nil
}
