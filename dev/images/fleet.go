package images

import (
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The names of the programs in pods and charts.
const (
	Controller = "fleetcontroller"
	Agent      = "fleetagent"
	// CommandLine is in the image of the controllers, because jobs of charts start it there.
	CommandLine = "fleet"
)

// user is the uid and gid of the programs, as the charts require.
const user = 1000

// Fleet returns the project's images fleet and fleet-agent for a registry and a tag. binaries maps each platform
// (linux/amd64, ...) to a directory with the built executables fleetcontroller, fleet and fleetagent.
func Fleet(repo, tag, version string, binaries map[string]string) ([]Image, error) {
	controller, err := ofPrograms(repo+"/fleet:"+tag, "Fleet's controllers", version, binaries, Controller, CommandLine)
	if err != nil {
		return nil, err
	}
	agent, err := ofPrograms(repo+"/fleet-agent:"+tag, "Fleet's agent", version, binaries, Agent)
	if err != nil {
		return nil, err
	}
	return []Image{controller, agent}, nil
}

// ofPrograms returns the image of some programs, which starts the first one. The directory of the programs is on the
// PATH, because the command of some pods is only the name of a program.
func ofPrograms(name, title, version string, binaries map[string]string, programs ...string) (Image, error) {
	image := Image{
		Name:       name,
		Entrypoint: programs[:1],
		User:       fmt.Sprintf("%d:%d", user, user),
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":   title,
			"org.opencontainers.image.version": version,
		},
		Files: root(),
	}
	for _, platform := range slices.Sorted(maps.Keys(binaries)) {
		variant := Variant{Platform: platform}
		for _, program := range programs {
			binary := path.Join(binaries[platform], program)
			if err := checkProgram(binary, platform); err != nil {
				return Image{}, err
			}
			variant.Files = append(variant.Files, File{Path: "/usr/bin/" + program, Mode: 0o755, From: binary})
		}
		image.Variants = append(image.Variants, variant)
	}
	return image, nil
}

// root returns the other files of the images: user and group names, trusted CAs, and writable directories for
// pods that mount none. The programs also run with a read-only root.
func root() []File {
	return []File{
		{Path: "/etc/passwd", Mode: 0o644, Content: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nfleet:x:%d:%d:fleet:/:/sbin/nologin\n", user, user)},
		{Path: "/etc/group", Mode: 0o644, Content: fmt.Appendf(nil, "root:x:0:\nfleet:x:%d:\n", user)},
		{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: roots()},
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "/.kube", Mode: fs.ModeDir | 0o755, Owner: user},
	}
}

// roots returns the CAs that Mozilla trusts, in the module version of go.mod. CAs that are trusted only for
// certificates issued before some date are omitted, because a PEM file cannot express that.
func roots() []byte {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue // omitted, because this version of Go cannot parse it
		}
		fmt.Fprintf(&file, "# %s\n", certificate.Subject)
		file.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return file.Bytes()
}

// Pause returns the image that holds the namespaces of a pod, for nodes that download nothing: see
// dev/images/pause. binary is that program, built for platform.
func Pause(name, platform, binary string) (Image, error) {
	if err := checkProgram(binary, platform); err != nil {
		return Image{}, err
	}
	return Image{
		Name: name, Entrypoint: []string{"/pause"}, User: "65535:65535",
		Variants: []Variant{{Platform: platform, Files: []File{{Path: "/pause", Mode: 0o755, From: binary}}}},
	}, nil
}

// checkProgram returns an error if a program cannot start in an image: it is for another processor, or needs a
// dynamic linker.
func checkProgram(file, platform string) error {
	binary, err := elf.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("executable %s for %s does not exist: build it first: %w", file, platform, err)
	}
	if err != nil {
		return fmt.Errorf("%s is not a Linux executable: build it with GOOS=linux: %w", file, err)
	}
	defer func() { _ = binary.Close() }() // the file is only read
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	machine, known := machines[platform]
	if !known {
		return fmt.Errorf("unsupported platform: images support %v, not %q", slices.Sorted(maps.Keys(machines)), platform)
	}
	if binary.Machine != machine {
		return fmt.Errorf("%s is for %s, not for %s: build it with the right GOARCH", file, binary.Machine, platform)
	}
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a dynamic linker, which the image does not contain: build it with CGO_ENABLED=0", file)
		}
	}
	return nil
}
