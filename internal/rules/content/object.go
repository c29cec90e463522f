package content

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrHashMismatch means that a Content does not match its hash: it was damaged or edited. Retrying does not help.
var ErrHashMismatch = errors.New("content does not match hash")

// Object returns the Content of a manifest, without labels, owners or finalizers. The same manifest always gives the
// same object.
func Object(m Manifest) *fleet.Content {
	text := m.Bytes()
	sum := hash(text)
	return &fleet.Content{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Content"},
		ObjectMeta: metav1.ObjectMeta{Name: ID(sum)},
		Content:    compress(text),
		SHA256Sum:  sum,
	}
}

// Read returns the manifest of a Content, after checking its hash if it has one. Errors wrap ErrHashMismatch,
// ErrTooLarge, or the error of decompressing or parsing.
func Read(c *fleet.Content) (Manifest, error) {
	text, err := decompress(c.Content, MaxSize)
	if err != nil {
		return Manifest{}, fmt.Errorf("decompressing content %s: %w", c.Name, err)
	}
	if c.SHA256Sum != "" && hash(text) != c.SHA256Sum {
		return Manifest{}, fmt.Errorf("reading content %s: %w", c.Name, ErrHashMismatch)
	}
	m, err := Parse(text)
	if err != nil {
		return Manifest{}, fmt.Errorf("reading content %s: %w", c.Name, err)
	}
	return m, nil
}
