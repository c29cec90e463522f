package labconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/cloudconfig"
	"github.com/fleet-hub/fleet/dev/machines/workload"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

// summary returns the files and commands of bootstrap data without the content of files.
func summary(t *testing.T, text []byte) string {
	t.Helper()
	config := must(cloudconfig.Parse(text))(t)
	var lines []string
	for _, each := range config.Files {
		lines = append(lines, fmt.Sprintf("%s %s", each.Permissions, each.Path))
	}
	for _, each := range config.Commands {
		lines = append(lines, strings.Join(each.Args, "\n  "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// contents returns the files of bootstrap data by path.
func contents(t *testing.T, text []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, each := range must(cloudconfig.Parse(text))(t).Files {
		found[each.Path] = string(each.Content)
	}
	return found
}

func rendered(t *testing.T, in Input, files ...file) []byte {
	t.Helper()
	out := Decide(in)
	if out.Stage != Generating {
		t.Fatalf("stage %s: %s", out.Stage, out.Message)
	}
	return must(render(in, out, files))(t)
}

func TestRender_MatchesTheGoldens(t *testing.T) {
	golden.Expect(t, "control-plane.golden", summary(t, rendered(t, controlPlaneOf(t), newFile("/etc/motd", "0640", []byte("hello")))))
	golden.Expect(t, "worker.golden", summary(t, rendered(t, workerOf(t))))
}

// TestSentinelFile is named after the rule of Cluster API.
func TestSentinelFile(t *testing.T) {
	for _, in := range []Input{controlPlaneOf(t), workerOf(t)} {
		commands := must(cloudconfig.Parse(rendered(t, in)))(t).Commands
		if last := commands[len(commands)-1].Args; strings.Join(last, " ") != "touch run/cluster-api/bootstrap-success.complete" {
			t.Errorf("the last command is %q", last)
		}
	}
}

func TestRender_ControlPlaneHasCertificatesOfTheCA(t *testing.T) {
	in := controlPlaneOf(t)
	files := contents(t, rendered(t, in))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(in.CA.Data[corev1.TLSCertKey])
	serving := must(tls.X509KeyPair([]byte(files["etc/kubernetes/serving.crt"]), []byte(files["etc/kubernetes/serving.key"])))(t)
	if _, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1", CurrentTime: someDay}); err != nil {
		t.Error(err)
	}
	for path, want := range map[string][]string{
		"etc/kubernetes/kubeconfig":           {"system:kube-controller-manager"},
		"kubelet/kubeconfig":                  {"system:node:east-1", "system:nodes"},
		"etc/kubernetes/podrunner-kubeconfig": {"lab:podrunner", "system:masters"},
	} {
		config := must(clientcmd.RESTConfigFromKubeConfig([]byte(files[path])))(t)
		client := must(tls.X509KeyPair(config.CertData, config.KeyData))(t)
		if diff := cmp.Diff(want, append([]string{client.Leaf.Subject.CommonName}, client.Leaf.Subject.Organization...)); diff != "" {
			t.Errorf("user in %s (-want +got):\n%s", path, diff)
		}
		if config.Host != "https://127.0.0.1:20001" {
			t.Errorf("%s is for %s", path, config.Host)
		}
	}
	for path, key := range map[string][]byte{
		"etc/kubernetes/ca.key": in.CA.Data[corev1.TLSPrivateKeyKey], "etc/kubernetes/service-accounts.key": in.Accounts.Data[corev1.TLSPrivateKeyKey],
	} {
		if files[path] != string(key) {
			t.Errorf("%s is not the key of the Secret", path)
		}
	}
}

func TestRender_WorkerHasOnlyItsToken(t *testing.T) {
	in := workerOf(t)
	files := contents(t, rendered(t, in))
	if len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
	config := must(clientcmd.RESTConfigFromKubeConfig([]byte(files["etc/kubernetes/bootstrap-kubeconfig"])))(t)
	ca := must(pki.ParseAuthority(pki.Pair{Certificate: in.CA.Data[corev1.TLSCertKey], Key: in.CA.Data[corev1.TLSPrivateKeyKey]}))(t)
	if config.BearerToken != workload.NewToken(ca, "c").Bearer() || config.Host != "https://127.0.0.1:20001" || len(config.KeyData) > 0 {
		t.Errorf("kubeconfig for %s", config)
	}
}

func TestCollectFiles(t *testing.T) {
	text := "hello"
	inline := func(path string) api.File { return api.File{Path: path, Content: &text} }
	from := func(name, key string) api.File {
		return api.File{Path: "/etc/x", Permissions: "0640", ContentFrom: api.FileSource{Secret: api.SecretKey{Name: name, Key: key}}}
	}
	secrets := map[string]*corev1.Secret{
		"small": {Data: map[string][]byte{"a": {0, 1}, "large": make([]byte, MaxFile), "larger": make([]byte, MaxFile+1)}}, "gone": nil,
	}
	tests := map[string]struct {
		files []api.File
		want  string
	}{
		"none":                      {},
		"inline":                    {files: []api.File{inline("/etc/motd")}},
		"of a Secret":               {files: []api.File{from("small", "a")}},
		"missing Secret":            {files: []api.File{from("gone", "a")}, want: `spec.files[0]: the Secret "gone" does not exist in this namespace: create it`},
		"missing key":               {files: []api.File{inline("/etc/motd"), from("small", "b")}, want: `spec.files[1]: the Secret "small" has no key "b": add it`},
		"too large":                 {files: []api.File{from("small", "larger")}, want: "spec.files[0]: the content has 131073 bytes: at most 131072 are accepted"},
		"too large together":        {files: []api.File{from("small", "large"), from("small", "large"), from("small", "large"), from("small", "large"), inline("/etc/motd")}, want: "spec.files[4]: the files have more than 524288 bytes together: remove some"},
		"path of the provider":      {files: []api.File{inline("/etc/kubernetes/ca.crt")}, want: `spec.files[0]: path "/etc/kubernetes/ca.crt" is in use by the provider: choose one outside of /etc/kubernetes, /kubelet, /pods, /etc/services, /run/cluster-api`},
		"file in place of a folder": {files: []api.File{inline("/etc")}, want: `spec.files[0]: path "/etc" is in use by the provider: choose one outside of /etc/kubernetes, /kubelet, /pods, /etc/services, /run/cluster-api`},
		"path out of the machine":   {files: []api.File{inline("/../etc/passwd")}, want: `spec.files[0]: path "/../etc/passwd" is not clean: write it as "/etc/passwd"`},
		"relative path":             {files: []api.File{inline("etc/motd")}, want: `spec.files[0]: path "etc/motd" is not clean: write it as "/etc/motd"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files, err := collectFiles(api.LabConfigSpec{Files: test.files}, secrets)
			if test.want == "" && (err != nil || len(files) != len(test.files)) || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("%d files, error %v, want %s", len(files), err, test.want)
			}
		})
	}
	got := must(collectFiles(api.LabConfigSpec{Files: []api.File{from("small", "a")}}, secrets))(t)
	want := []file{{Path: "/etc/x", Permissions: "0640", Encoding: "base64", Content: base64.StdEncoding.EncodeToString([]byte{0, 1})}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"small", "small"}, secretsOf(api.LabConfigSpec{Files: []api.File{from("small", "a"), inline("/x"), from("small", "b")}})); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
}

// FuzzRender checks that accepted files never make data that the machine rejects, except for one path written twice.
func FuzzRender(f *testing.F) {
	f.Add("/etc/motd", "hello", "0644")
	f.Add("/a: b\n", "\x00", "600")
	in := workerOf(f)
	out := Decide(in)
	f.Fuzz(func(t *testing.T, path, content, permissions string) {
		if permissions != "0600" && permissions != "644" {
			permissions = "" // the CRD allows three octal digits
		}
		files, err := collectFiles(api.LabConfigSpec{Files: []api.File{{Path: path, Content: &content, Permissions: permissions}}}, nil)
		if err != nil {
			return
		}
		text, err := render(in, out, files)
		if err != nil {
			return // reported as FilesInvalid
		}
		config, err := cloudconfig.Parse(text)
		if err != nil || len(config.Files) != 2 || string(config.Files[1].Content) != content || "/"+config.Files[1].Path != path {
			t.Errorf("path %q became %+v, %v", path, config, err)
		}
	})
}
