package foreign

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Sentinels of what can keep us from an API server. Their texts are fit for a condition's message: they
// never change from one attempt to the next.
var (
	// ErrUntrusted means the server's certificate is not signed by a CA we trust, or is not for this host.
	// Only a human can mend it.
	ErrUntrusted = errors.New("the API server's certificate is not trusted")
	// ErrExpired means that the server's certificate is not valid at this time; it is an ErrUntrusted, too.
	ErrExpired = fmt.Errorf("%w: it has expired, or is not valid yet", ErrUntrusted)
	// ErrUnreachable means no answer came: refused, no route, unknown host, or too late. Time may mend it.
	ErrUnreachable = errors.New("the API server cannot be reached")
)

// Classify adds ErrExpired, ErrUntrusted or ErrUnreachable to an error of a request that never got an answer. An
// answer that is an error (403, 500 …) and nil are returned as they are.
func Classify(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUntrusted), errors.Is(err, ErrUnreachable), isRefusal(err):
		return err
	case isOutdated(err):
		return fmt.Errorf("%w: %w", ErrExpired, err)
	case isUntrusted(err):
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	case isUnreachable(err):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	default:
		return err
	}
}

// isRefusal reports whether it was this side that went no further.
func isRefusal(err error) bool {
	return errors.Is(err, ErrKubeconfigAddress) || errors.Is(err, ErrRedirected) || errors.Is(err, ErrAnswerTooLong)
}

func isOutdated(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

func isUntrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		noRoots      x509.SystemRootsError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) ||
		errors.As(err, &invalid) || errors.As(err, &noRoots)
}

func isUnreachable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || utilnet.IsConnectionRefused(err) {
		return true
	}
	var network net.Error // timeouts, no route, unknown hosts; url.Error is one too, whatever it wraps
	return errors.As(err, &network)
}
