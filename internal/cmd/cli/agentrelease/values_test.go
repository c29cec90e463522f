package agentrelease

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
)

func TestImageOfText_IsUsedUnlessTheUserChoosesOne(t *testing.T) {
	digest := "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		text string
		user map[string]any
		want string
	}{
		"with a tag":              {"registry.example.com:5000/fleet-agent:v1", nil, "registry.example.com:5000/fleet-agent:v1"},
		"without a tag":           {"registry.example.com:5000/fleet-agent", nil, "registry.example.com:5000/fleet-agent:latest"},
		"with a digest":           {"fleethub/fleet-agent" + digest, nil, "fleethub/fleet-agent" + digest},
		"the user's image":        {"a/b:c", map[string]any{"image": map[string]any{"repository": "d/e", "tag": "f"}}, "d/e:f"},
		"the user's flag":         {"a/b:c", map[string]any{"internal": map[string]any{"image": "d/e:f"}}, "d/e:f"},
		"the user's registry":     {"a/b:c", map[string]any{"global": map[string]any{"cattle": map[string]any{"systemDefaultRegistry": "r.example.com"}}, "internal": map[string]any{"image": ""}, "image": map[string]any{"tag": "t"}}, "r.example.com/fleethub/fleet-agent:t"},
		"the user's pull Secret":  {"a/b:c", map[string]any{"global": map[string]any{"cattle": map[string]any{"imagePullSecrets": []any{map[string]any{"name": "login"}}}}}, "a/b:c"},
		"the user's pull policy":  {"a/b:c", map[string]any{"image": map[string]any{"imagePullPolicy": "Always"}}, "a/b:c"},
		"a text without an image": {"", map[string]any{"image": map[string]any{"tag": "t"}}, "fleethub/fleet-agent:t"},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := Values(jointext.Text{URL: "https://hub.example.com", Workspace: "w", Token: "t", TokenName: "n", SystemRegistrationNamespace: "r", Image: test.text}, test.user)
			if err != nil {
				t.Fatal(err)
			}
			pod, err := Pod("cattle-fleet-system", values)
			if err != nil {
				t.Fatal(err)
			}
			if got := pod.Spec.Containers[0].Image; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Such as the proxy without which the agent does not reach the hub. The text of another hub replaces what the earlier one has set.
func TestValuesOfTheUser_StayWhenTheAgentJoinsAgain(t *testing.T) {
	join := func(text jointext.Text, user map[string]any) map[string]any {
		t.Helper()
		text.Workspace, text.Token, text.SystemRegistrationNamespace = "w", "t", "r"
		values, err := Values(text, user)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	pullSecrets := []any{map[string]any{"name": "login"}}
	first := map[string]any{
		"proxy": "http://proxy:3128", "noProxy": "10.0.0.0/8", "image": map[string]any{"imagePullPolicy": "Always"},
		"global": map[string]any{"cattle": map[string]any{"imagePullSecrets": pullSecrets}},
	}
	earlier := join(jointext.Text{URL: "https://one", CA: "ca", TokenName: "n", ClientID: "c", Image: "a/agent:v1"}, first)
	second := map[string]any{"noProxy": "", "debug": true}
	got := join(jointext.Text{URL: "https://two", TokenName: "m", Image: "b/agent:v2"}, WithEarlier(second, earlier))
	want := join(jointext.Text{URL: "https://two", TokenName: "m"}, map[string]any{
		"proxy": "http://proxy:3128", "noProxy": "", "debug": true,
		"image":  map[string]any{"imagePullPolicy": "Always", "repository": "b/agent", "tag": "v2"},
		"global": map[string]any{"cattle": map[string]any{"imagePullSecrets": pullSecrets}},
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestDiffer_IgnoresValuesThatTheReleaseHas(t *testing.T) {
	earlier := map[string]any{"debugLevel": 5.0, "image": map[string]any{"tag": "v1", "repository": "a/agent"}, "internal": map[string]any{"image": "b/agent:v2"}}
	for name, test := range map[string]struct {
		user map[string]any
		want bool
	}{
		"same values":   {map[string]any{"debugLevel": int64(5), "image": map[string]any{"tag": "v1"}}, false},
		"same image":    {map[string]any{"internal": map[string]any{"image": "b/agent:v2"}}, false},
		"another value": {map[string]any{"debugLevel": int64(6)}, true},
		"a new value":   {map[string]any{"proxy": "http://proxy:3128"}, true},
		"a value less":  {map[string]any{"image": map[string]any{"tag": nil}}, true},
	} {
		if got := Differ(test.user, earlier); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
