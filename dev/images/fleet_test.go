package images

import (
	"crypto/x509"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// build builds both images with programs of a few bytes.
func build(t *testing.T, change func(*Options)) (string, []Archived) {
	t.Helper()
	options := Options{Repo: "docker.io/fleethub", Tag: "dev", Binaries: programs(t), Out: filepath.Join(t.TempDir(), "dist")}
	if change != nil {
		change(&options)
	}
	made, err := Build(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return options.Out, made
}

func TestBuild_ImagesMatchTheGoldens(t *testing.T) {
	out, made := build(t, func(o *Options) { o.Version = "v1.2.3" })
	for i, file := range []string{"fleet", "fleet-agent"} {
		t.Run(file, func(t *testing.T) {
			content := open(t, filepath.Join(out, file+".tar"))
			if got := decode[map[string]string](t, content["oci-layout"])["imageLayoutVersion"]; got != "1.0.0" {
				t.Errorf("the archive has version %q of the layout", got)
			}
			descriptor, index := content.one(t)
			want := map[string]string{AnnotationName: "docker.io/fleethub/" + file + ":dev", AnnotationRefName: "dev"}
			if diff := cmp.Diff(want, descriptor.Annotations); diff != "" {
				t.Errorf("annotations differ (-want +got):\n%s", diff)
			}
			var told, platforms []string
			for _, image := range index.Manifests {
				told = append(told, content.tell(t, image))
				platforms = append(platforms, image.Platform.String())
			}
			golden.Expect(t, file+".golden", strings.Join(told, "\n"))
			if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
				t.Errorf("platforms differ (-want +got):\n%s", diff)
			}
			checkTold(t, content, descriptor, index, made[i])
		})
	}
}

// checkTold compares what Build returned with the archive.
func checkTold(t *testing.T, content archive, descriptor v1.Descriptor, index v1.IndexManifest, told Archived) {
	t.Helper()
	want := Archived{Name: descriptor.Annotations[AnnotationName], Archive: told.Archive, Digest: descriptor.Digest.String()}
	for n, image := range index.Manifests {
		manifest := decode[v1.Manifest](t, content.blob(t, image))
		platform := ArchivedPlatform{
			Platform: image.Platform.String(), Digest: image.Digest.String(), Compressed: image.Size + manifest.Config.Size, Unpacked: told.Platforms[n].Unpacked,
		}
		var unpacked int64
		for _, layer := range manifest.Layers {
			platform.Compressed += layer.Size
			for _, e := range untar(t, content.unzip(t, layer)) {
				unpacked += int64(len(e.content))
			}
		}
		platform.Unpacked = unpacked
		want.Platforms = append(want.Platforms, platform)
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("the result differs from the archive (-archive +result):\n%s", diff)
	}
}

func TestBuild_EachPlatformHasItsOwnPrograms(t *testing.T) {
	out, _ := build(t, nil)
	for name, file := range map[string]string{Controller: "fleet.tar", CommandLine: "fleet.tar", Agent: "fleet-agent.tar"} {
		content := open(t, filepath.Join(out, file))
		_, index := content.one(t)
		for _, image := range index.Manifests {
			got := string(content.file(t, image, "usr/bin/"+name))
			if want := name + " for " + image.Platform.String(); !strings.HasSuffix(got, want) {
				t.Errorf("%s for %s holds %q, want %q at the end", file, image.Platform, got, want)
			}
		}
	}
}

func TestBuild_UsersHaveNames(t *testing.T) {
	out, _ := build(t, nil)
	content := open(t, filepath.Join(out, "fleet-agent.tar"))
	_, index := content.one(t)
	want := map[string]string{
		"etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nfleet:x:1000:1000:fleet:/:/sbin/nologin\n",
		"etc/group":  "root:x:0:\nfleet:x:1000:\n",
	}
	for path, text := range want {
		if diff := cmp.Diff(text, string(content.file(t, index.Manifests[0], path))); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", path, diff)
		}
	}
}

func TestRoots_AreTheCAsTrustedWithoutConditions(t *testing.T) {
	out, _ := build(t, nil)
	content := open(t, filepath.Join(out, "fleet.tar"))
	_, index := content.one(t)
	got, want := x509.NewCertPool(), x509.NewCertPool()
	if !got.AppendCertsFromPEM(content.file(t, index.Manifests[0], "etc/ssl/certs/ca-certificates.crt")) {
		t.Fatal("found no certificate")
	}
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if root.Constraint == nil {
			want.AddCert(certificate)
		}
	}
	if !got.Equal(want) {
		t.Error("the file does not contain exactly the trusted certificates")
	}
}

func TestDigests_DependOnContentOnly(t *testing.T) {
	digests := func(change func(*Options)) []string {
		_, made := build(t, change)
		return []string{made[0].Digest, made[1].Digest}
	}
	first := digests(nil)
	tests := map[string]struct {
		change func(*Options)
		same   bool
	}{
		"same programs in other directories: same digest": {func(*Options) {}, true},
		"other registry: same digest":                     {func(o *Options) { o.Repo = "registry.example.com/a/b" }, true},
		"other tag, same version: same digest":            {func(o *Options) { o.Tag, o.Version = "v2", "dev" }, true},
		"default time: same digest":                       {func(o *Options) { o.Form.Created = time.Unix(0, 0) }, true},
		"another version":                                 {func(o *Options) { o.Version = "v2" }, false},
		"another time":                                    {func(o *Options) { o.Form.Created = time.Unix(1, 0) }, false},
		"for one platform only":                           {func(o *Options) { delete(o.Binaries, "linux/arm64") }, false},
		"other programs": {func(o *Options) {
			for _, name := range []string{Controller, CommandLine, Agent} {
				if err := os.WriteFile(filepath.Join(o.Binaries["linux/arm64"], name), program(elf.EM_AARCH64, false, "new"), 0o600); err != nil {
					panic(err)
				}
			}
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for i, digest := range digests(test.change) {
				if (digest == first[i]) != test.same {
					t.Errorf("image %d: %s, before %s; want them the same: %t", i, digest, first[i], test.same)
				}
			}
		})
	}
}

func TestBuildAgain_WritesTheSameArchive(t *testing.T) {
	first, _ := build(t, nil)
	second, _ := build(t, nil)
	for _, file := range []string{"fleet.tar", "fleet-agent.tar"} {
		a, err := os.ReadFile(filepath.Join(first, file))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, file))
		if err != nil {
			t.Fatal(err)
		}
		if string(a) != string(b) {
			t.Errorf("%s differs between two runs", file)
		}
	}
}

func TestFastImages_HaveTheSameFiles(t *testing.T) {
	tight, _ := build(t, nil)
	fast, _ := build(t, func(o *Options) { o.Form.Fast = true })
	tell := func(out string) string {
		content := open(t, filepath.Join(out, "fleet.tar"))
		_, index := content.one(t)
		return content.tell(t, index.Manifests[0])
	}
	if diff := cmp.Diff(tell(tight), tell(fast)); diff != "" {
		t.Errorf("the fast image differs (-default +fast):\n%s", diff)
	}
}

func TestImageNames_AreChecked(t *testing.T) {
	tests := map[string]struct{ repo, tag, want, err string }{
		"default registry":                    {repo: "docker.io/fleethub", tag: "dev", want: "docker.io/fleethub/fleet-agent:dev"},
		"other registry":                      {repo: "registry.example.com/x", tag: "v1.2.3-rc.1", want: "registry.example.com/x/fleet-agent:v1.2.3-rc.1"},
		"registry with a port":                {repo: "127.0.0.1:5000", tag: "dev", want: "127.0.0.1:5000/fleet-agent:dev"},
		"no registry: docker.io is used":      {repo: "fleethub", tag: "dev", want: "docker.io/fleethub/fleet-agent:dev"},
		"index.docker.io: docker.io is used":  {repo: "index.docker.io/fleethub", tag: "dev", want: "docker.io/fleethub/fleet-agent:dev"},
		"invalid character in the tag: error": {repo: "docker.io/fleethub", tag: "a+b", err: "write it as registry/repository/name:tag, the repository in lower case, the tag of letters, digits, '_', '.' and '-'"},
		"no tag: error":                       {repo: "docker.io/fleethub", err: `"docker.io/fleethub/fleet:" is not a valid image name`},
		"capitals in the repository: error":   {repo: "docker.io/FleetHub", tag: "dev", err: `"docker.io/FleetHub/fleet:dev" is not a valid image name`},
		"digest instead of a tag: error":      {repo: "docker.io/fleethub", tag: "x@sha256:0", err: "is not a valid image name"},
		"URL with a scheme: error":            {repo: "https://registry.example.com", tag: "dev", err: "is not a valid image name"},
		"tag is too long: error":              {repo: "docker.io/fleethub", tag: strings.Repeat("x", 129), err: "is not a valid image name"},
		"no repository: error":                {repo: "", tag: "dev", err: "is not a valid image name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			made, err := Build(t.Context(), Options{Repo: test.repo, Tag: test.tag, Binaries: programs(t), Out: out})
			if wants(t, err, test.err); err != nil {
				return
			}
			descriptor, _ := open(t, filepath.Join(out, "fleet-agent.tar")).one(t)
			if got := descriptor.Annotations[AnnotationName]; got != test.want || made[1].Name != test.want {
				t.Errorf("the archive has %q, Build returned %q, want %q", got, made[1].Name, test.want)
			}
		})
	}
}

func TestUnusableProgram_IsRejected(t *testing.T) {
	tests := map[string]struct {
		content  []byte
		platform string
		want     string
	}{
		"missing executable": {want: "build it first"},
		"script":             {content: []byte("#!/bin/sh\n"), want: "is not a Linux executable: build it with GOOS=linux"},
		"other processor":    {content: program(elf.EM_AARCH64, false, ""), want: "is for EM_AARCH64, not for linux/amd64: build it with the right GOARCH"},
		"dynamically linked": {content: program(elf.EM_X86_64, true, ""), want: "needs a dynamic linker, which the image does not contain: build it with CGO_ENABLED=0"},
		"unsupported processor": {
			content: program(elf.EM_S390, false, ""), platform: "linux/s390x", want: `unsupported platform: images support [linux/amd64 linux/arm64], not "linux/s390x"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.platform == "" {
				test.platform = "linux/amd64"
			}
			file := filepath.Join(t.TempDir(), Controller)
			if test.content != nil {
				write(t, file, test.content)
			}
			_, err := Fleet("docker.io/fleethub", "dev", "dev", map[string]string{test.platform: filepath.Dir(file)})
			wants(t, err, test.want)
			_, err = Pause("docker.io/fleethub/pause:dev", test.platform, file)
			wants(t, err, test.want)
		})
	}
}

func TestPause_ImageRunsTheProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pause")
	write(t, file, program(elf.EM_X86_64, false, ""))
	image, err := Pause("docker.io/fleethub/pause:dev", "linux/amd64", file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "pause.tar")
	if _, err := image.Archive(to, Form{}); err != nil {
		t.Fatal(err)
	}
	content := open(t, to)
	_, index := content.one(t)
	golden.Expect(t, "pause.golden", content.tell(t, index.Manifests[0]))
}
