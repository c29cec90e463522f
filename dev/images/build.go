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

// Options say what Build makes. Repo, Tag and Out are needed.
type Options struct {
	// Repo is the registry and the folder in it that take the images: docker.io/fleethub.
	Repo string
	// Tag of both images.
	Tag string
	// Version is what the programs and the images say of themselves. Empty: Tag.
	Version string
	// Platforms are linux/amd64, linux/arm64, or both, which is what empty means. Ignored where Binaries is set.
	Platforms []string
	// Binaries has, for each platform, the folder with fleetcontroller and fleetagent, already built. Empty: they
	// are built, which takes some minutes the first time.
	Binaries map[string]string
	// Root is the folder of the project's module; empty: the current one.
	Root string
	// Out is the folder for fleet.tar and fleet-agent.tar. It is made.
	Out string
	// Form is how the images are packed.
	Form Form
	// Local compiles with what other builds and tests on this machine have compiled already: sooner, for images that
	// stay here. Digests then depend on the folder of the source.
	Local bool
	// Progress gets one line for what takes long. It may be nil.
	Progress func(line string)
}

// Build makes the project's images as archives Out/fleet.tar and Out/fleet-agent.tar, in this order, building the
// programs for them if need be.
func Build(ctx context.Context, options Options) ([]Archived, error) {
	if options.Version == "" {
		options.Version = options.Tag
	}
	// Before the programs are built: a wrong name should not take minutes to be noticed.
	if _, err := Reference(options.Repo + "/fleet:" + options.Tag); err != nil {
		return nil, err
	}
	if len(options.Binaries) == 0 {
		scratch, err := os.MkdirTemp("", "fleet-images-")
		if err != nil {
			return nil, fmt.Errorf("making a folder for the programs: %w", err)
		}
		defer func() { _ = os.RemoveAll(scratch) }() // in the system's folder for what is left over
		if options.Binaries, err = compileAll(ctx, options, scratch); err != nil {
			return nil, err
		}
	}
	all, err := Fleet(options.Repo, options.Tag, options.Version, options.Binaries)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Out, 0o755); err != nil { //nolint:gosec // the result is for everybody
		return nil, fmt.Errorf("making the folder for the archives: %w", err)
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

// compileAll builds both programs for all platforms, in a folder for each.
func compileAll(ctx context.Context, options Options, scratch string) (map[string]string, error) {
	platforms := options.Platforms
	if len(platforms) == 0 {
		platforms = []string{"linux/amd64", "linux/arm64"}
	}
	binaries := map[string]string{}
	for _, platform := range platforms {
		folder := filepath.Join(scratch, filepath.FromSlash(platform))
		for _, program := range []struct{ name, source string }{{Controller, "./cmd/controller"}, {Agent, "./cmd/agent"}} {
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

// Program is a program to be built from this module.
type Program struct {
	// Root is the folder of the module; empty: the current one.
	Root string
	// Source is the package, from Root: ./cmd/agent.
	Source string
	// Platform is what it is for: linux/amd64.
	Platform string
	// Version it says it is; empty: dev.
	Version string
	// Local is that of Options.
	Local bool
	// To is the file; the folder above is made.
	To string
}

// Compile builds a program such that the same source gives the same bytes wherever it is, unless it is Local.
func Compile(ctx context.Context, program Program) error {
	platform, err := parsePlatform(program.Platform)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(program.To)
	if err != nil {
		return fmt.Errorf("finding %s: %w", program.To, err)
	}
	ldflags := "-s -w -buildid="
	if program.Version != "" {
		ldflags += " -X github.com/fleet-hub/fleet/internal/version.Version=" + program.Version
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath="+strconv.FormatBool(!program.Local), "-buildvcs=false", //nolint:gosec // a build tool
		"-ldflags", ldflags, "-o", to, program.Source)
	build.Dir = program.Root
	// What the caller has set for his own builds must not change these.
	build.Env = append(os.Environ(), "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOTOOLCHAIN=local")
	if output, err := build.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("building needs Go: install it, or name folders with built programs: %w", err)
		}
		return fmt.Errorf("building %s for %s: %w\n%s", program.Source, program.Platform, err, output)
	}
	return nil
}
