package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/fleet-hub/fleet/dev/images"
)

// programs creates a directory with the programs: only headers, and 2 MB that hardly compress.
func programs(t *testing.T) string {
	t.Helper()
	var program bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56,
	}
	if err := binary.Write(&program, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	noise := uint32(1)
	for range 2_000_000 {
		noise = noise*1664525 + 1013904223
		program.WriteByte(byte(noise >> 24))
	}
	folder := t.TempDir()
	for _, name := range []string{images.Controller, images.CommandLine, images.Agent} {
		if err := os.WriteFile(filepath.Join(folder, name), program.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// run runs the command and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command(&out, io.Discard)
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestBuildAndPush_PrintTheirResults(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repo, out := server.Listener.Addr().String()+"/x", filepath.Join(t.TempDir(), "dist")
	build := []string{"build", "--binaries", "linux/amd64=" + programs(t), "--repo", repo, "--tag", "v1", "--out", out}
	archives := []string{filepath.Join(out, "fleet.tar"), filepath.Join(out, "fleet-agent.tar")}

	printed, err := run(t, append(build, "--output", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var made []images.Archived
	if err := json.Unmarshal([]byte(printed), &made); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(archives, []string{made[0].Archive, made[1].Archive}); diff != "" {
		t.Errorf("archives differ (-want +got):\n%s", diff)
	}

	if printed, err = run(t, build...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table(made), printed); diff != "" {
		t.Errorf("the table of the second build differs (-want +got):\n%s", diff)
	}

	printed, err = run(t, append([]string{"push", "-o", "json"}, archives...)...)
	if err != nil {
		t.Fatal(err)
	}
	var pushed []images.Pushed
	if err := json.Unmarshal([]byte(printed), &pushed); err != nil {
		t.Fatal(err)
	}
	wantPushed := []images.Pushed{{Name: repo + "/fleet:v1", Digest: made[0].Digest}, {Name: repo + "/fleet-agent:v1", Digest: made[1].Digest}}
	if diff := cmp.Diff(wantPushed, pushed); diff != "" {
		t.Errorf("pushed images differ (-want +got):\n%s", diff)
	}
}

func TestTables_ShowSizesAndDigests(t *testing.T) {
	made := []images.Archived{
		{Name: "docker.io/fleethub/fleet:dev", Archive: "dist/fleet.tar", Digest: "sha256:1", Platforms: []images.ArchivedPlatform{
			{Platform: "linux/amd64", Digest: "sha256:2", Compressed: 16_383_036, Unpacked: 55_900_000},
			{Platform: "linux/arm64", Digest: "sha256:3", Compressed: 9_949_999, Unpacked: 1_000_000},
		}},
		{Name: "docker.io/fleethub/fleet-agent:dev", Digest: "sha256:4"},
	}
	want := strings.Join([]string{
		"IMAGE                               PLATFORM     DOWNLOAD  UNPACKED  DIGEST",
		"docker.io/fleethub/fleet:dev        all                              sha256:1",
		"                                    linux/amd64  16.4 MB   55.9 MB   sha256:2",
		"                                    linux/arm64  9.9 MB    1.0 MB    sha256:3",
		"docker.io/fleethub/fleet-agent:dev  all                              sha256:4",
		"",
	}, "\n")
	if diff := cmp.Diff(want, table(made)); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
	want = "PUSHED               DIGEST\nregistry/x/fleet:v1  sha256:1\n"
	if diff := cmp.Diff(want, pushedTable([]images.Pushed{{Name: "registry/x/fleet:v1", Digest: "sha256:1"}})); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
}

func TestCommand_FailsOnWrongInput(t *testing.T) {
	binaries := "linux/amd64=" + programs(t)
	tests := map[string]struct {
		args []string
		want string
	}{
		"image over its limit: error": {
			args: []string{"build", "--binaries", binaries, "--max-size", "fleet=3500000"},
			want: "image exceeds the size limit: docker.io/fleethub/fleet:dev for linux/amd64 has 4.1 MB, the limit is 3.5 MB: check what its program links, or raise --max-size",
		},
		"limit of the other image: success": {args: []string{"build", "--binaries", binaries, "--max-size", "fleet-agent=3500000"}},
		"no limit: success":                 {args: []string{"build", "--binaries", binaries, "--max-size", "fleet=0"}},
		"build with unknown output: error":  {args: []string{"build", "-o", "yaml"}, want: `unknown --output "yaml": use table or json`},
		"push with unknown output: error":   {args: []string{"push", "x.tar", "-o", "yaml"}, want: `unknown --output "yaml": use table or json`},
		"invalid tag: error":                {args: []string{"build", "--binaries", binaries, "--tag", "a b"}, want: `"docker.io/fleethub/fleet:a b" is not a valid image name`},
		"no archive to push: error":         {args: []string{"push"}, want: "requires at least 1 arg(s)"},
		"missing archive: error":            {args: []string{"push", "/nowhere/x.tar"}, want: "/nowhere/x.tar does not exist: create it with `make images`"},
		"missing programs: error":           {args: []string{"build", "--binaries", "linux/amd64=/nowhere"}, want: "executable /nowhere/fleetcontroller for linux/amd64 does not exist: build it first"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.args[0] == "build" {
				test.args = append(test.args, "--out", t.TempDir())
			}
			_, err := run(t, test.args...)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
