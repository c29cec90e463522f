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

// The programs, as pods and charts call them.
const (
	Controller = "fleetcontroller"
	Agent      = "fleetagent"
)

// user is whom both programs run as, the one that the charts demand: uid and gid.
const user = 1000

// Fleet are the project's images for a registry and a tag, in the order fleet, fleet-agent. Their programs are
// already built: binaries has a folder for each platform (linux/amd64 and so on), with fleetcontroller and
// fleetagent in it.
func Fleet(repo, tag, version string, binaries map[string]string) ([]Image, error) {
	controller, err := ofProgram(repo+"/fleet:"+tag, Controller, "Fleet's controllers", version, binaries)
	if err != nil {
		return nil, err
	}
	// The jobs of charts that call it by this name.
	controller.Files = append(controller.Files, File{Path: "/usr/bin/fleet", Link: Controller})
	agent, err := ofProgram(repo+"/fleet-agent:"+tag, Agent, "Fleet's agent", version, binaries)
	if err != nil {
		return nil, err
	}
	return []Image{controller, agent}, nil
}

// ofProgram is the image of one program. Its folder is on the PATH, so that pods whose command is only the
// program's name find it.
func ofProgram(name, program, title, version string, binaries map[string]string) (Image, error) {
	image := Image{
		Name:       name,
		Entrypoint: []string{program},
		User:       fmt.Sprintf("%d:%d", user, user),
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":   title,
			"org.opencontainers.image.version": version,
		},
		Files: root(),
	}
	for _, platform := range slices.Sorted(maps.Keys(binaries)) {
		binary := path.Join(binaries[platform], program)
		if err := checkProgram(binary, platform); err != nil {
			return Image{}, err
		}
		image.Variants = append(image.Variants, Variant{
			Platform: platform, Files: []File{{Path: "/usr/bin/" + program, Mode: 0o755, From: binary}},
		})
	}
	return image, nil
}

// root is what the programs find beside themselves: who they are, whom to trust, and where they may write if
// nothing is mounted there. They run as well where the root is read-only.
func root() []File {
	return []File{
		{Path: "/etc/passwd", Mode: 0o644, Content: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nfleet:x:%d:%d:fleet:/:/sbin/nologin\n", user, user)},
		{Path: "/etc/group", Mode: 0o644, Content: fmt.Appendf(nil, "root:x:0:\nfleet:x:%d:\n", user)},
		{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: roots()},
		{Path: "/tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "/.kube", Mode: fs.ModeDir | 0o755, Owner: user},
	}
}

// roots are the certificate authorities that Mozilla trusts, as of the module's version in go.mod. Those trusted
// only for what they signed up to a day are left out: a file of certificates cannot say so.
func roots() []byte {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue // one that this Go does not read, it does not trust either
		}
		fmt.Fprintf(&file, "# %s\n", certificate.Subject)
		file.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return file.Bytes()
}

// Pause is the image that holds the namespaces of a pod, for nodes that download nothing: see dev/images/pause.
// binary is that program, built for platform.
func Pause(name, platform, binary string) (Image, error) {
	if err := checkProgram(binary, platform); err != nil {
		return Image{}, err
	}
	return Image{
		Name: name, Entrypoint: []string{"/pause"}, User: "65535:65535",
		Variants: []Variant{{Platform: platform, Files: []File{{Path: "/pause", Mode: 0o755, From: binary}}}},
	}, nil
}

// checkProgram fails if a program would not start in an image of its own: it needs another processor, or a linker.
func checkProgram(file, platform string) error {
	binary, err := elf.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s for %s: build it first: %w", file, platform, err)
	}
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: build it with GOOS=linux: %w", file, err)
	}
	defer func() { _ = binary.Close() }() // only read
	machines := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	machine, known := machines[platform]
	if !known {
		return fmt.Errorf("images are made for %v, not for %q", slices.Sorted(maps.Keys(machines)), platform)
	}
	if binary.Machine != machine {
		return fmt.Errorf("%s is for %s, not for %s: build it with the right GOARCH", file, binary.Machine, platform)
	}
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs a dynamic linker, which the image has not: build it with CGO_ENABLED=0", file)
		}
	}
	return nil
}
