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

// Errors that mean that an API server cannot be used. Their texts are suitable for conditions: they are the same
// in every attempt.
var (
	// ErrUntrusted means that the server's certificate is not signed by a trusted CA or is for another host. Only a
	// human can fix it.
	ErrUntrusted = errors.New("the API server's certificate is not trusted")
	// ErrExpired means that the server's certificate is not valid at this time. It wraps ErrUntrusted.
	ErrExpired = fmt.Errorf("%w: it has expired, or is not valid yet", ErrUntrusted)
	// ErrUnreachable means that no response arrived: connection refused, no route, unknown host, or timeout. It may
	// go away without action.
	ErrUnreachable = errors.New("the API server cannot be reached")
)

// Classify adds ErrExpired, ErrUntrusted or ErrUnreachable to the error of a request without a response. It
// returns nil and errors in responses (403, 500 …) unchanged.
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

// isRefusal reports whether this side refused to continue.
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
	var network net.Error // timeouts, no route, unknown hosts; also url.Error, whatever it wraps
	return errors.As(err, &network)
}
