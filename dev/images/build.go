package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Options configures Build. Repo, Tag and Out are required.
type Options struct {
	// Repo is the registry and the repository prefix of the images, for example docker.io/fleethub.
	Repo string
	// Tag is the tag of both images.
	Tag string
	// Version is the version that the programs and the images report. Empty means Tag.
	Version string
	// Platforms are linux/amd64, linux/arm64, or both. Empty means both. It is ignored if Binaries is set.
	Platforms []string
	// Binaries maps a platform to a directory with built executables fleetcontroller, fleet and fleetagent. If it
	// is empty, Build compiles them, which takes some minutes the first time.
	Binaries map[string]string
	// Root is the directory of the project's module. Empty means the working directory.
	Root string
	// Out is the directory for fleet.tar and fleet-agent.tar. It is created if missing.
	Out string
	// Form configures how the images are packed.
	Form Form
	// Local reuses the build cache of other builds on this machine. It is faster, for images that stay on this
	// machine. The digests then depend on the directory of the source.
	Local bool
	// Progress receives a line for each slow step. It may be nil.
	Progress func(line string)
}

// Build builds the project's images as archives Out/fleet.tar and Out/fleet-agent.tar, in this order. It compiles
// the programs if needed.
func Build(ctx context.Context, options Options) ([]Archived, error) {
	if options.Version == "" {
		options.Version = options.Tag
	}
	// Check the name before the slow build of the programs.
	if _, err := Reference(options.Repo + "/fleet:" + options.Tag); err != nil {
		return nil, err
	}
	if len(options.Binaries) == 0 {
		scratch, err := os.MkdirTemp("", "fleet-images-")
		if err != nil {
			return nil, fmt.Errorf("creating a directory for the programs: %w", err)
		}
		defer func() { _ = os.RemoveAll(scratch) }() // leftovers are in the system's temporary directory
		if options.Binaries, err = compileAll(ctx, options, scratch); err != nil {
			return nil, err
		}
	}
	all, err := Fleet(options.Repo, options.Tag, options.Version, options.Binaries)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Out, 0o755); err != nil { //nolint:gosec // the result is for everybody
		return nil, fmt.Errorf("creating the directory of the archives: %w", err)
	}
	var made []Archived
	for i, file := range []string{"fleet.tar", "fleet-agent.tar"} {
		archived, err := all[i].Archive(filepath.Join(options.Out, file), options.Form)
		if err != nil {
			return nil, err
		}
		made = append(made, archived)
	}
	return made, nil
}

// compileAll compiles all programs for all platforms, into one directory per platform.
func compileAll(ctx context.Context, options Options, scratch string) (map[string]string, error) {
	platforms := options.Platforms
	if len(platforms) == 0 {
		platforms = []string{"linux/amd64", "linux/arm64"}
	}
	binaries := map[string]string{}
	for _, platform := range platforms {
		folder := filepath.Join(scratch, filepath.FromSlash(platform))
		for _, program := range []struct{ name, source string }{
			{Controller, "./cmd/controller"}, {CommandLine, "./cmd/fleet"}, {Agent, "./cmd/agent"},
		} {
			if options.Progress != nil {
				options.Progress(fmt.Sprintf("building %s for %s", program.name, platform))
			}
			err := Compile(ctx, Program{
				Root: options.Root, Source: program.source, Platform: platform, Version: options.Version, Local: options.Local,
				To: filepath.Join(folder, program.name),
			})
			if err != nil {
				return nil, err
			}
		}
		binaries[platform] = folder
	}
	return binaries, nil
}

// Program describes a program to compile from this module.
type Program struct {
	// Root is the directory of the module. Empty means the working directory.
	Root string
	// Source is the package, relative to Root: ./cmd/agent.
	Source string
	// Platform is the target platform: linux/amd64.
	Platform string
	// Version is the version that the program reports. Empty means dev.
	Version string
	// Local has the meaning of Options.Local.
	Local bool
	// To is the path of the executable. Its directory is created if missing.
	To string
}

// Compile compiles a program. Unless it is Local, the same source gives the same bytes in every directory.
func Compile(ctx context.Context, program Program) error {
	platform, err := parsePlatform(program.Platform)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(program.To)
	if err != nil {
		return fmt.Errorf("finding %s: %w", program.To, err)
	}
	ldflags := "-s -w -funcalign=16 -buildid="
	if program.Version != "" {
		ldflags += " -X github.com/fleet-hub/fleet/internal/version.Version=" + program.Version
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath="+strconv.FormatBool(!program.Local), "-buildvcs=false", //nolint:gosec // a build tool
		"-ldflags", ldflags, "-o", to, program.Source)
	build.Dir = program.Root
	// The caller's build settings must not change the result.
	build.Env = append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOTOOLCHAIN=local")
	if output, err := build.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("compiling the programs: Go is not installed: install it, or pass directories with built programs: %w", err)
		}
		return fmt.Errorf("building %s for %s: %w\n%s", program.Source, program.Platform, err, output)
	}
	return nil
}
