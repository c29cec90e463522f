package register

import (
	"fmt"
	"io"
)

// The random part of a request has 54 characters from an alphabet of 27.
const (
	randomAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	randomLength   = 54
)

// randomToken chooses each character with equal probability. It discards bytes that would favor the first
// characters of the alphabet.
func randomToken(random io.Reader) (string, error) {
	const fair = 256 - 256%len(randomAlphabet)
	token := make([]byte, 0, randomLength)
	buffer := make([]byte, randomLength)
	for len(token) < randomLength {
		if _, err := io.ReadFull(random, buffer); err != nil {
			return "", fmt.Errorf("drawing a random token: %w", err)
		}
		for _, b := range buffer {
			if int(b) < fair && len(token) < randomLength {
				token = append(token, randomAlphabet[int(b)%len(randomAlphabet)])
			}
		}
	}
	return string(token), nil
}
