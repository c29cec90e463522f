package apply

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rancher/wrangler/v3/pkg/yaml"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/pack"
)

// print prints the Bundles, each with its ImageScans, to standard output or a file.
func (c *command) print(bundles []*pack.Bundle) (err error) {
	if c.output == stdio {
		return printTo(c.streams.Out, bundles, c.strict)
	}
	if err := os.MkdirAll(filepath.Dir(c.output), 0o755); err != nil {
		return err
	}
	created, err := os.Create(c.output)
	if err != nil {
		return err
	}
	defer func() {
		if closing := created.Close(); err == nil {
			err = closing
		}
	}()
	return printTo(created, bundles, c.strict)
}

// printTo prints the Bundles as YAML. Nothing separates two Bundles, unless separate is set.
func printTo(out io.Writer, bundles []*pack.Bundle, separate bool) error {
	for i, bundle := range bundles {
		objects := []runtime.Object{bundle.Bundle}
		for _, scan := range bundle.ImageScans {
			objects = append(objects, scan)
		}
		text, err := yaml.Export(objects...)
		if err != nil {
			return fmt.Errorf("printing Bundle %s: %w", bundle.Name, err)
		}
		if separate && i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}
