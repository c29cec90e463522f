package handshake_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// tokenInput is a token of which nothing was made yet.
func tokenInput(modifiers ...func(*handshake.TokenInput)) handshake.TokenInput {
	return *build(&handshake.TokenInput{
		Now: noon(), Token: aToken(), APIServerURL: hubURL, APIServerCA: []byte(hubCA), Namespaces: hubNamespaces(),
	}, modifiers)
}

func tokenWith(modifiers ...func(*fleet.ClusterRegistrationToken)) func(*handshake.TokenInput) {
	return func(in *handshake.TokenInput) { in.Token = aToken(modifiers...) }
}

func tokenMade(ago time.Duration) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.CreationTimestamp = at(-ago) }
}

func tokenReported(status fleet.ClusterRegistrationTokenStatus) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Status = status }
}

func tokenOfLength(n int) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Name = strings.Repeat("t", n) }
}

func importAccount(in *handshake.TokenInput) {
	in.Account = anAccount(workspace, "t1-u1", "account-1")
}

func importRights(in *handshake.TokenInput) { in.RightsExist = true }

func holding(bearer string) func(*handshake.TokenInput) {
	return func(in *handshake.TokenInput) { in.Secret = valuesSecret(bearer) }
}

func ttlRequired(in *handshake.TokenInput) { in.TTLRequired = true }

func TestToken(t *testing.T) {
	works := boundJWT("account-1", noon().Add(time.Hour))
	ready := []func(*handshake.TokenInput){importAccount, importRights, holding(works)}
	with := func(modifiers ...func(*handshake.TokenInput)) handshake.TokenInput {
		return tokenInput(append(append([]func(*handshake.TokenInput){}, ready...), modifiers...)...)
	}
	tests := map[string]struct {
		in   handshake.TokenInput
		want handshake.TokenStage
	}{
		// The way to the values.
		"a new token gets an account with the right to ask":       {tokenInput(), handshake.TokenAwaitingRights},
		"an account without its rights waits for them":            {tokenInput(importAccount), handshake.TokenAwaitingRights},
		"rights without their account wait for it":                {tokenInput(importRights), handshake.TokenAwaitingRights},
		"with account and rights a bearer token is asked for":     {tokenInput(importAccount, importRights), handshake.TokenMinting},
		"a values secret with a token that works is all there is": {with(), handshake.TokenReady},
		"a token from a token secret works without an end":        {with(holding(secretJWT("account-1"))), handshake.TokenReady},
		"rights that went are healed while the values stay":       {with(func(in *handshake.TokenInput) { in.RightsExist = false }), handshake.TokenReady},
		"another address of the hub is told with the same bearer": {with(func(in *handshake.TokenInput) { in.APIServerURL = "https://new.example" }), handshake.TokenReady},
		"another system namespace is told": {with(func(in *handshake.TokenInput) {
			in.Namespaces = handshake.Namespaces{System: "hub", Registration: "hub-clusters-system"}
		}), handshake.TokenReady},
		"a hub without a CA gives none":             {with(func(in *handshake.TokenInput) { in.APIServerCA = nil }), handshake.TokenReady},
		"what is said of the token by others stays": {with(tokenWith(tokenReported(fleet.ClusterRegistrationTokenStatus{Conditions: []genericcondition.GenericCondition{{Type: "Ready"}}}))), handshake.TokenReady},
		"an old status is corrected":                {tokenInput(tokenWith(tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1", Expires: &metav1.Time{Time: noon()}}))), handshake.TokenAwaitingRights},

		// Bearer tokens that cannot work.
		"the token of an account that was made anew is replaced": {with(holding(boundJWT("account-0", time.Time{}))), handshake.TokenMinting},
		"a bearer token that has ended is replaced":              {with(holding(boundJWT("account-1", noon()))), handshake.TokenMinting},
		"a bearer token that is none is replaced":                {with(holding("letmein")), handshake.TokenMinting},
		"values without a bearer token get one":                  {with(holding("")), handshake.TokenMinting},
		"values that cannot be read are written anew":            {with(func(in *handshake.TokenInput) { in.Secret.Data["values"] = []byte("- x") }), handshake.TokenMinting},
		"a values secret without values is filled":               {with(func(in *handshake.TokenInput) { in.Secret.Data = nil }), handshake.TokenMinting},
		"without its account a bearer token is worth nothing":    {with(func(in *handshake.TokenInput) { in.Account, in.RightsExist = nil, false }), handshake.TokenAwaitingRights},

		// A name that is taken.
		"a secret of another type is left alone": {with(func(in *handshake.TokenInput) { in.Secret.Type = corev1.SecretTypeOpaque }), handshake.TokenBlocked},
		"also before the account is there":       {tokenInput(holding(works), func(in *handshake.TokenInput) { in.Secret.Type = corev1.SecretTypeOpaque }), handshake.TokenBlocked},

		// A name that no agent can repeat.
		"a token of 63 characters is like any other": {tokenInput(tokenWith(tokenOfLength(63))), handshake.TokenAwaitingRights},
		"nothing is made for one of 64 characters":   {tokenInput(tokenWith(tokenOfLength(64))), handshake.TokenUnusable},
		"nor kept":                     {with(tokenWith(tokenOfLength(64), tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1"}))), handshake.TokenUnusable},
		"it is looked at when it ends": {tokenInput(tokenWith(tokenOfLength(64), withTTL(time.Hour))), handshake.TokenUnusable},
		"it ends like any other":       {tokenInput(tokenWith(tokenOfLength(64), withTTL(time.Minute), tokenMade(time.Hour))), handshake.TokenEnded},

		// Ends.
		"a token with a time to live is looked at when it ends":     {with(tokenWith(withTTL(time.Hour))), handshake.TokenReady},
		"a blocked token ends like any other":                       {with(tokenWith(withTTL(time.Hour)), func(in *handshake.TokenInput) { in.Secret.Type = corev1.SecretTypeOpaque }), handshake.TokenBlocked},
		"in the second of its end it is still good":                 {with(tokenWith(withTTL(time.Minute))), handshake.TokenReady},
		"after its end it goes":                                     {with(tokenWith(withTTL(time.Minute), tokenMade(time.Minute+time.Millisecond))), handshake.TokenEnded},
		"a time to live of zero never ends, but has an end to show": {with(tokenWith(withTTL(0))), handshake.TokenReady},
		"where an end is required, a token without one goes":        {with(ttlRequired), handshake.TokenEnded},
		"where an end is required, zero is none":                    {with(ttlRequired, tokenWith(withTTL(0))), handshake.TokenEnded},
		"where an end is required, a token with one stays":          {with(ttlRequired, tokenWith(withTTL(time.Hour))), handshake.TokenReady},
		"the longest time to live that the API takes does not wrap": {with(tokenWith(withTTL(2562047 * time.Hour))), handshake.TokenReady},
	}
	golden := goldenOf(t, "token")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := pure(t, handshake.Token, test.in)
			expectEqual(t, "stage", got.Stage, test.want)
			golden.expect(t, name, told(t, got))
			checkTokenOutcome(t, got)
		})
	}
}

// checkTokenOutcome holds for every token.
func checkTokenOutcome(t *testing.T, out handshake.TokenOutcome) {
	t.Helper()
	if (out.Mint != nil) != (out.Stage == handshake.TokenMinting) {
		t.Error("a bearer token is asked for in stage Minting and in no other")
	}
	if (len(out.Children) == 0) != (out.Stage == handshake.TokenEnded || out.Stage == handshake.TokenUnusable) {
		t.Error("the set is empty when the token has ended or was never any use, and only then")
	}
	if (out.Reason == "") != (out.Message == "") {
		t.Errorf("reason %q with message %q", out.Reason, out.Message)
	}
	there := out.Stage == handshake.TokenReady || out.Stage == handshake.TokenMinting
	if out.Stage != handshake.TokenEnded && (out.Status.SecretName != "") != there {
		t.Error("the status names the secret when it is there or about to be, and only then")
	}
	if !out.Recheck.IsZero() && out.Recheck.Before(noon()) {
		t.Errorf("looking again at %s, which is past, is looking for ever", out.Recheck)
	}
	if out.Delete != (out.Stage == handshake.TokenEnded) {
		t.Error("a token is deleted when it has ended, and only then")
	}
}

// The set only grows: what an earlier stage wrote is in every later one.
func TestTokenSetOnlyGrows(t *testing.T) {
	working := holding(boundJWT("account-1", time.Time{}))
	steps := []handshake.TokenInput{
		tokenInput(), tokenInput(importAccount), tokenInput(importAccount, importRights), tokenInput(importAccount, importRights, working),
	}
	var before []string
	for _, in := range steps {
		now := lines(t, handshake.Token(in).Children)
		if len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
			t.Errorf("the set shrank from %v to %v", before, now)
		}
		before = now
	}
}

func TestImportLifetime(t *testing.T) {
	tests := map[string]struct {
		now   time.Duration
		token *fleet.ClusterRegistrationToken
		want  time.Duration
	}{
		"without an end the longest there is":                         {0, aToken(), handshake.TokenLifetime},
		"with an end until then":                                      {0, aToken(withTTL(time.Hour)), 59 * time.Minute},
		"a fraction of a second is rounded up, so as to last as long": {300 * time.Millisecond, aToken(withTTL(time.Hour)), 59 * time.Minute},
		"close to the end the least that the API takes":               {0, aToken(withTTL(5 * time.Minute)), handshake.MinTokenLifetime},
		"longer than the API takes is cut":                            {0, aToken(withTTL(2562047 * time.Hour)), handshake.TokenLifetime},
		"a time to live of zero is none":                              {0, aToken(withTTL(0)), handshake.TokenLifetime},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := pure(t, handshake.Token, tokenInput(importAccount, importRights, func(in *handshake.TokenInput) {
				in.Token, in.Now = test.token, noon().Add(test.now)
			}))
			expectEqual(t, "mint", got.Mint, &handshake.Mint{Namespace: workspace, Account: "t1-u1", Lifetime: test.want})
		})
	}
}

// A bearer token that ends with its ClusterRegistrationToken must not need another one before that.
func TestBearerLastsAsLongAsItsToken(t *testing.T) {
	in := tokenInput(importAccount, importRights, tokenWith(withTTL(time.Hour)))
	in.Now = in.Now.Add(700 * time.Millisecond)
	lifetime := handshake.Token(in).Mint.Lifetime
	given := in.Now.Add(10 * time.Millisecond).Truncate(time.Second).Add(lifetime) // as the API server counts
	in.Secret = valuesSecret(boundJWT("account-1", given))
	in.Now = in.Token.CreationTimestamp.Add(time.Hour - time.Nanosecond)
	expectEqual(t, "stage in the last moment", handshake.Token(in).Stage, handshake.TokenReady)
}

func TestTokenObjects(t *testing.T) {
	golden := goldenOf(t, "token-objects")
	for name, token := range map[string]*fleet.ClusterRegistrationToken{
		"a token": aToken(),
		"a token with a long name, whose account and roles are cut": aToken(func(t *fleet.ClusterRegistrationToken) {
			t.Name, t.UID = "import-token-my-cluster", "12345678-1234-1234-1234-123456789012"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			in := tokenInput(importAccount, importRights, func(in *handshake.TokenInput) { in.Token = token })
			in.Secret = valuesSecret(boundJWT("account-1", time.Time{}))
			golden.expect(t, name, toldInFull(t, pure(t, handshake.Token, in).Children))
		})
	}
}

// An address of the hub that YAML cannot hold changes nothing for those who have joined with another.
func TestTokenKeepsWhatIsThere(t *testing.T) {
	in := tokenInput(importAccount, importRights, holding(boundJWT("account-1", time.Time{})))
	in.APIServerURL = "\x7f"
	out := pure(t, handshake.Token, in)
	expectEqual(t, "stage", out.Stage, handshake.TokenReady)
	expectEqual(t, "values secret", out.Children[len(out.Children)-1].(*corev1.Secret), in.Secret)
}

func TestValuesSecretRefusesControlCharacters(t *testing.T) {
	secret, err := handshake.ValuesSecret(aToken(), handshake.Values{Token: "jwt", APIServerCA: "\x7f"})
	if err == nil || secret != nil {
		t.Errorf("secret %v, error %v: what YAML cannot hold is an error", secret, err)
	}
}

// The values of a token are what the agent's bootstrap secret is read from.
func TestValuesSecretIsABootstrapSecret(t *testing.T) {
	out := handshake.Token(tokenInput(importAccount, importRights, holding(boundJWT("account-1", time.Time{}))))
	secret, isSecret := out.Children[len(out.Children)-1].(*corev1.Secret)
	if !isSecret {
		t.Fatalf("the last child is %T", out.Children[len(out.Children)-1])
	}
	got, err := handshake.ParseBootstrap(secret.Data)
	if err != nil {
		t.Fatal(err)
	}
	expectEqual(t, "bootstrap", got, handshake.Bootstrap{
		APIServerURL: hubURL, APIServerCA: []byte(hubCA), ClusterNamespace: workspace, Token: boundJWT("account-1", time.Time{}),
		TokenName: "t1", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	})
}
