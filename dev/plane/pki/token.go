package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// AdminToken reads the admin's token from a cluster's directory.
func AdminToken(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, FileTokens))
	if err != nil {
		return "", fmt.Errorf("reading the admin's token: %w", err)
	}
	token, _, _ := strings.Cut(string(content), ",")
	return token, nil
}
