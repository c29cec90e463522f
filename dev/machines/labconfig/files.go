package labconfig

import (
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

// Limits of the files of a LabConfig.
const (
	// MaxFile limits one file, and MaxFiles the sum of all files, in bytes.
	MaxFile  = 128 << 10
	MaxFiles = 512 << 10
)

// file is an item of write_files.
type file struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions,omitempty"`
	Encoding    string `json:"encoding"`
	Content     string `json:"content"`
}

func newFile(path, permissions string, content []byte) file {
	return file{Path: path, Permissions: permissions, Encoding: "base64", Content: base64.StdEncoding.EncodeToString(content)}
}

// generatedFolders are the folders of the provider's own files.
func generatedFolders() []string {
	return []string{"/" + configFolder, "/" + kubeletFolder, "/" + podsFolder, "/etc/services", "/run/cluster-api"}
}

// secretsOf returns the names of the Secrets that a LabConfig's files need.
func secretsOf(spec api.LabConfigSpec) []string {
	var names []string
	for _, each := range spec.Files {
		if each.Content == nil {
			names = append(names, each.ContentFrom.Secret.Name)
		}
	}
	return names
}

// collectFiles returns the files of a LabConfig. secrets contains the Secrets of its namespace by name; a missing one is
// absent. Errors name the field and contain no content.
func collectFiles(spec api.LabConfigSpec, secrets map[string]*corev1.Secret) ([]file, error) {
	var files []file
	total := 0
	for i, each := range spec.Files {
		content, err := contentOf(each, secrets)
		if err == nil {
			err = checkPath(each.Path)
		}
		if total += len(content); err == nil && total > MaxFiles {
			err = fmt.Errorf("the files have more than %d bytes together: remove some", MaxFiles)
		}
		if err != nil {
			return nil, fmt.Errorf("spec.files[%d]: %w", i, err)
		}
		files = append(files, newFile(each.Path, each.Permissions, content))
	}
	return files, nil
}

func contentOf(wanted api.File, secrets map[string]*corev1.Secret) ([]byte, error) {
	var content []byte
	if wanted.Content != nil {
		content = []byte(*wanted.Content)
	} else {
		ref := wanted.ContentFrom.Secret
		secret := secrets[ref.Name]
		if secret == nil {
			return nil, fmt.Errorf("the Secret %.253q does not exist in this namespace: create it", ref.Name)
		}
		var found bool
		if content, found = secret.Data[ref.Key]; !found {
			return nil, fmt.Errorf("the Secret %.253q has no key %.253q: add it", ref.Name, ref.Key)
		}
	}
	if len(content) > MaxFile {
		return nil, fmt.Errorf("the content has %d bytes: at most %d are accepted", len(content), MaxFile)
	}
	return content, nil
}

// checkPath keeps the files of the provider.
func checkPath(wanted string) error {
	clean := path.Clean("/" + wanted)
	if clean != wanted {
		return fmt.Errorf("path %.80q is not clean: write it as %.80q", wanted, clean)
	}
	for _, folder := range generatedFolders() {
		if clean == folder || strings.HasPrefix(clean, folder+"/") || strings.HasPrefix(folder, clean+"/") {
			return fmt.Errorf("path %.80q is in use by the provider: choose one outside of %s", wanted, strings.Join(generatedFolders(), ", "))
		}
	}
	return nil
}
