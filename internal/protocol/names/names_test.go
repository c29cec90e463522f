package names

import (
	"regexp"
	"strings"
	"testing"
)

func TestGoldenVectors(t *testing.T) {
	const importAccount = "import-token-my-cluster-12345678-1234-1234-1234-123456789012"
	tests := map[string]struct{ got, want string }{
		"the local cluster's namespace":               {ClusterNamespace("fleet-local", "local"), "cluster-fleet-local-local-1a3d67d0a899"},
		"a downstream cluster's namespace":            {ClusterNamespace("fleet-default", "my-cluster"), "cluster-fleet-default-my-cluster-147c8d034230"},
		"a recorded cluster's namespace":              {ClusterNamespace("fleet-default", "east"), "cluster-fleet-default-east-0f0350029557"},
		"a long cluster's namespace is cut":           {ClusterNamespace("fleet-default", "a-very-long-downstream-cluster-name-for-testing"), "cluster-fleet-default-a-very-long-downstream-cluster-name-9e137"},
		"a cluster named after its client ID":         {Cluster("really-random"), "cluster-08f9d8eb5b7d"},
		"a recorded cluster named after its agent":    {Cluster("2f3ef2b9-a098-4add-8b24-98f3f760a28c"), "cluster-3f8a81b9896a"},
		"a credential Secret":                         {CredentialSecret("my-client", "my-random"), "c-fc2fd2a50164c306a07c82a55e803f5a4c758f99bb6e635d9181877b10fdc"},
		"a recorded credential Secret":                {CredentialSecret("2f3ef2b9-a098-4add-8b24-98f3f760a28c", "vr6gz9z88jbjn2x5btgft4zfjtgqb8fm8pkfdp9q7bx4l26kr6lqvg"), "c-40fc3c1869b8b4f993dd574c33cd29b01f352d4c0cae3b255bd69df90ff66"},
		"an import account":                           {ImportAccount("import-token-my-cluster", "12345678-1234-1234-1234-123456789012"), importAccount},
		"an import account's role":                    {SafeConcat(importAccount, "role"), "import-token-my-cluster-12345678-1234-1234-1234-123456789-e6597"},
		"an import account's binding":                 {SafeConcat(importAccount, "to", "role"), "import-token-my-cluster-12345678-1234-1234-1234-123456789-247ed"},
		"an import account's creds role":              {SafeConcat(importAccount, "creds"), "import-token-my-cluster-12345678-1234-1234-1234-123456789-5796b"},
		"the agent's set":                             {SetHash(AgentSetID(""), Owner{}), "f399d0b310fbfb28e9667312fdc7a33954e2b8c8"},
		"the agent's set under a scope":               {SetHash(AgentSetID("cattle-fleet-local-system"), Owner{}), "362023f752e7f1989d8b652e029bd2c658ae7c44"},
		"a token's set":                               {SetHash("cluster-group-token", Owner{GVK: "fleet.cattle.io/v1alpha1, Kind=ClusterRegistrationToken", Name: "import-token-east", Namespace: "fleet-default"}), "dbe7bd85f28158a4f92324fba7b34ec667119446"},
		"a request's set":                             {SetHash("cluster-registration", Owner{GVK: "fleet.cattle.io/v1alpha1, Kind=ClusterRegistration", Name: "request-5k4nm", Namespace: "fleet-default"}), "0c29d908b43b242b80294797bace80782fe33618"},
		"the bootstrap set":                           {SetHash("fleet-bootstrap", Owner{}), "67f475f626e5473772f6084a291170a9de5942d1"},
		"the bootstrap data's set":                    {SetHash("fleet-bootstrap-data", Owner{}), "4510303f19b6cbafc9031148b1866f16c2be7aaa"},
		"a workspace's agent bundles":                 {SetHash("fleet-manage-agent", Owner{GVK: "/v1, Kind=Namespace", Name: "fleet-default"}), "0c0440c1b19daaf2fab5e92ccbeec1359d1f7521"},
		"a bundle deployment's set":                   {SetHash("default-remove-metadata", Owner{}), "0f3e1d9d146fa8b290c0de403881184751430e59"},
		"the registration namespace":                  {RegistrationNamespace("cattle-fleet-system"), "cattle-fleet-clusters-system"},
		"the legacy registration namespace":           {RegistrationNamespace("fleet-system"), "fleet-clusters-system"},
		"a registration namespace of another name":    {RegistrationNamespace("foo"), "foo-clusters-system"},
		"an agent bundle":                             {AgentBundle("east"), "fleet-agent-east"},
		"an import token":                             {ImportToken("east"), "import-token-east"},
		"release of a path":                           {HelmReleaseName("repo/simple"), "repo-simple"},
		"release of a path with capitals":             {HelmReleaseName("repo/Path_A/b.c"), "repo-path-a-b-c-866ab76a"},
		"release of a long name":                      {HelmReleaseName(strings.Repeat("a", 60)), strings.Repeat("a", 47) + "-cc7ed"},
		"release of nothing usable":                   {HelmReleaseName("___"), "948a13f1"},
		"release of an agent bundle":                  {HelmReleaseName("fleet-agent-east"), "fleet-agent-east"},
		"64 letters are cut after 57":                 {SafeConcat(strings.Repeat("a", 64)), strings.Repeat("a", 57) + "-ffe05"},
		"two parts of 32 letters":                     {SafeConcat(strings.Repeat("a", 32), strings.Repeat("a", 32)), strings.Repeat("a", 32) + "-" + strings.Repeat("a", 24) + "-da5ed"},
		"a cut that would end in a dash moves left":   {SafeConcat(strings.Repeat("a", 56) + "-" + strings.Repeat("a", 7)), strings.Repeat("a", 56) + "-768c62"},
		"a dash before the cut stays":                 {SafeConcat(strings.Repeat("a", 55) + "--" + strings.Repeat("a", 7)), strings.Repeat("a", 55) + "--9e8cfe"},
		"63 characters stay":                          {SafeConcat(strings.Repeat("a", 63)), strings.Repeat("a", 63)},
		"an upper-case letter at the cut is no digit": {SafeConcat(strings.Repeat("a", 56) + "A" + strings.Repeat("a", 7))[:57], strings.Repeat("a", 56) + "-"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got %q, want %q", test.got, test.want)
			}
		})
	}
}

func TestStatusHash(t *testing.T) {
	tests := map[string]struct {
		in         any
		start, end string
	}{
		"bytes":         {[]byte("foo"), "10a98acee3877e0d0f97c1e17ef4f7228193a707e9f6d943947f90fc", ""},
		"no bytes":      {[]byte{}, "106eab90", "b93ce4a6e81822d"},
		"nil is no set": {[]byte(nil), "a7408a8b", "072f529cb"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := StatusHash(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, test.start) || !strings.HasSuffix(got, test.end) {
				t.Errorf("got %q, want %s…%s", got, test.start, test.end)
			}
		})
	}
	if _, err := StatusHash(func() {}); err == nil {
		t.Error("a function has no JSON and so no hash: want an error")
	}
}

func TestKeyHash_ReadsTheFirst100Bytes(t *testing.T) {
	long := strings.Repeat("x", 100)
	if KeyHash(long) != KeyHash(long+"y") {
		t.Error("bytes after the hundredth changed the hash")
	}
	if KeyHash(long[:99]) == KeyHash(long) {
		t.Error("the hundredth byte did not change the hash")
	}
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func FuzzHelmReleaseName(f *testing.F) {
	for _, seed := range []string{"", "a", "repo/Path_A/b.c", "-", "ÄÖ", strings.Repeat("a-", 40), strings.Repeat("A", 54)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := HelmReleaseName(s)
		if len(got) > releaseLimit || !label.MatchString(got) {
			t.Errorf("HelmReleaseName(%q) = %q is no release name", s, got)
		}
		if again := HelmReleaseName(got); again != got {
			t.Errorf("a release name does not stay: %q became %q", got, again)
		}
	})
}

func FuzzSafeConcat(f *testing.F) {
	f.Add("a", "b")
	f.Add(strings.Repeat("a", 56), "b")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := SafeConcat(a, b)
		if len(got) > 63 {
			t.Errorf("SafeConcat(%q, %q) has %d bytes", a, b, len(got))
		}
	})
}
