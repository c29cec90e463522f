package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// problem is the body of an answer that reports an error.
type problem struct {
	Kind  string `json:"kind,omitempty"`
	Error string `json:"error"`
}

// answers maps errors to their names in answers and to status codes.
func answers() []struct {
	err  error
	kind string
	code int
} {
	return []struct {
		err  error
		kind string
		code int
	}{
		{ErrNotFound, "NotFound", http.StatusNotFound},
		{ErrConflict, "Conflict", http.StatusConflict},
		{ErrInvalid, "Invalid", http.StatusBadRequest},
		{ErrFull, "Full", http.StatusInsufficientStorage},
		{ErrPortInUse, "PortInUse", http.StatusServiceUnavailable},
	}
}

// WriteError answers a request with an error. The client returns an error with the same text that wraps the same
// Err… value.
func WriteError(w http.ResponseWriter, err error) {
	code, p := http.StatusInternalServerError, problem{Error: err.Error()}
	for _, each := range answers() {
		if errors.Is(err, each.err) {
			code, p.Kind = each.code, each.kind
			break
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(p) // a client that has gone does not read it
}

// remote is an error that the host has reported.
type remote struct {
	text string
	kind error
}

func (e *remote) Error() string { return e.text }

func (e *remote) Unwrap() error { return e.kind }

// decodeError returns the error of an answer.
func decodeError(code int, content []byte) error {
	var p problem
	if err := json.Unmarshal(content, &p); err != nil || p.Error == "" {
		const most = 200
		text := strings.TrimSpace(string(content))
		return fmt.Errorf("the answer has status %d: %.*s", code, most, text)
	}
	for _, each := range answers() {
		if each.kind == p.Kind {
			return &remote{text: p.Error, kind: each.err}
		}
	}
	return errors.New(p.Error)
}
