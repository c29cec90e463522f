// Command images builds and pushes the project's container images, without a container engine.
//
//	make images   dist/fleet.tar and dist/fleet-agent.tar
//	make push     to the registry in REPO
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleet-hub/fleet/dev/images"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

func command(out, progress io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "images",
		Short:         "Makes and pushes the project's container images, without a container engine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(buildCommand(out, progress), pushCommand(out))
	return cmd
}

// errTooLarge is returned after the table is printed, so that the user sees which image is too large.
var errTooLarge = errors.New("image exceeds the size limit")

func buildCommand(out, progress io.Writer) *cobra.Command {
	options := images.Options{Progress: func(line string) { _, _ = fmt.Fprintln(progress, line) }}
	var output string
	var epoch int64
	var limits map[string]int64
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Write fleet.tar and fleet-agent.tar: OCI archives, the same bytes from the same source",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			options.Form.Created = time.Unix(epoch, 0)
			made, err := images.Build(cmd.Context(), options)
			if err != nil {
				return err
			}
			if err := report(out, output, made, func() string { return table(made) }); err != nil {
				return err
			}
			return checkSizes(made, limits)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Repo, "repo", "docker.io/fleethub", "registry and repository prefix of the images")
	flags.StringVar(&options.Tag, "tag", "dev", "tag of the images")
	flags.StringVar(&options.Version, "version", "", "version that the programs report; default: the tag")
	flags.StringSliceVar(&options.Platforms, "platforms", []string{"linux/amd64", "linux/arm64"}, "platforms of the images")
	flags.StringToStringVar(&options.Binaries, "binaries", nil, "directories with built programs by platform, for example linux/amd64=bin")
	flags.StringVar(&options.Out, "out", "dist", "directory of the archives")
	flags.BoolVar(&options.Form.Fast, "fast", false, "faster packing with less compression")
	flags.BoolVar(&options.Local, "local", false, "reuse of the local build cache; digests then depend on the source directory")
	flags.Int64Var(&epoch, "source-date-epoch", 0, "creation time of the images in seconds since 1970")
	flags.StringToInt64Var(&limits, "max-size", map[string]int64{"fleet": 42_000_000, "fleet-agent": 25_000_000},
		"maximum download size of one platform of an image in bytes; images that are not named have no limit")
	flags.StringVarP(&output, "output", "o", "table", "output format: table or json")
	return cmd
}

// checkSizes compares images with the limits of their archives, by name without the extension.
func checkSizes(made []images.Archived, limits map[string]int64) error {
	for _, image := range made {
		limit := limits[strings.TrimSuffix(filepath.Base(image.Archive), ".tar")]
		for _, platform := range image.Platforms {
			if limit > 0 && platform.Compressed > limit {
				return fmt.Errorf("%w: %s for %s has %s, the limit is %s: check what its program links, or raise --max-size",
					errTooLarge, image.Name, platform.Platform, megabytes(platform.Compressed), megabytes(limit))
			}
		}
	}
	return nil
}

func pushCommand(out io.Writer) *cobra.Command {
	var options images.PushOptions
	var output string
	cmd := &cobra.Command{
		Use:   "push ARCHIVE...",
		Short: "Push images to the registry that their names say, with what `docker login` has stored",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, archives []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			var all []images.Pushed
			for _, archive := range archives {
				pushed, err := images.Push(cmd.Context(), archive, options)
				if err != nil {
					return err
				}
				all = append(all, pushed...)
			}
			return report(out, output, all, func() string { return pushedTable(all) })
		},
	}
	cmd.Flags().BoolVar(&options.Insecure, "insecure", false, "permission to use plain HTTP")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "output format: table or json")
	return cmd
}
