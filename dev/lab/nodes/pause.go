//go:build linux

package nodes

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/fleet-hub/fleet/dev/images"
	"github.com/fleet-hub/fleet/dev/plane/build"
)

// PauseImage is the name of the image that holds the namespaces of pods.
const PauseImage = "docker.io/fleethub/pause:lab"

// pauseArchive builds that image and returns the path of its archive in the directory.
func pauseArchive(ctx context.Context, dir string) (string, error) {
	binary, err := build.Pause(ctx, nil)
	if err != nil {
		return "", err
	}
	image, err := images.Pause(PauseImage, runtime.GOOS+"/"+runtime.GOARCH, binary)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "pause.tar")
	_, err = image.Archive(archive, images.Form{Fast: true})
	return archive, err
}
