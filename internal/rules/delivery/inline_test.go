package delivery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func withoutValues(t testing.TB, options fleet.BundleDeploymentOptions) fleet.BundleDeploymentOptions {
	t.Helper()
	options = *options.DeepCopy()
	if _, err := TakeValues(&options); err != nil {
		t.Fatal(err)
	}
	return options
}

// valuesOf returns the values that a BundleDeployment contains.
func valuesOf(t testing.TB, bd *fleet.BundleDeployment) (v Values) {
	t.Helper()
	bd = bd.DeepCopy()
	for options, to := range map[*fleet.BundleDeploymentOptions]*[]byte{&bd.Spec.Options: &v.Current, &bd.Spec.StagedOptions: &v.Staged} {
		text, err := TakeValues(options)
		if err != nil {
			t.Fatal(err)
		}
		*to = text
	}
	return v
}

// old has values in the BundleDeployment, or in a Secret.
const (
	oldText = `{"old":true}`
	newText = `{"a":1}`
)

// inline returns existing with its values in the options.
func inline(t testing.TB) *fleet.BundleDeployment {
	t.Helper()
	bd := existing(t)
	bd.Spec.ValuesHash, bd.Spec.WaitingForValues = "", false
	for _, options := range []*fleet.BundleDeploymentOptions{&bd.Spec.Options, &bd.Spec.StagedOptions} {
		if err := putValues(options, []byte(oldText)); err != nil {
			t.Fatal(err)
		}
	}
	return bd
}

// marked returns existing with plain values in a Secret.
func marked(t testing.TB) *fleet.BundleDeployment {
	bd := existing(t)
	bd.Spec.WaitingForValues = false
	objects.Annotate(bd, annotation.PlainValues, bd.Spec.ValuesHash)
	return bd
}

func notMarked(t testing.TB) *fleet.BundleDeployment {
	bd := marked(t)
	objects.Annotate(bd, annotation.PlainValues, "")
	return bd
}

// unchanged returns the BundleDeployment with the newest IDs and values, so that there is nothing to deploy.
func unchanged(t testing.TB, inSecret bool) *fleet.BundleDeployment {
	t.Helper()
	out, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: rollout.Promote, PlainInSecrets: inSecret})
	if err != nil {
		t.Fatal(err)
	}
	return out.Deployment
}

// TestValues_OnlyPlainOnesAreInline checks that only plain values are in the BundleDeployment, and that they are never lost.
func TestValues_OnlyPlainOnesAreInline(t *testing.T) {
	both := func(text string) Values { return Values{Current: []byte(text), Staged: []byte(text)} }
	mixed := Values{Current: []byte(oldText), Staged: []byte(newText)}
	tests := map[string]struct {
		action    rollout.Action
		existing  *fleet.BundleDeployment
		secret    bool // the Bundle's values come from its Secret
		inSecrets bool
		// inline are the values in the BundleDeployment, stored are those of its Secret.
		inline, stored Values
		keep           bool
	}{
		"new, plain: inline":                           {action: rollout.Promote, inline: both(newText)},
		"new, from a Secret: in a Secret":              {action: rollout.Promote, secret: true, stored: both(newText)},
		"new, plain, with the setting: in a Secret":    {action: rollout.Promote, inSecrets: true, stored: both(newText)},
		"new, staged: only the staged ones":            {action: rollout.Stage, inline: Values{Staged: []byte(newText)}},
		"promoted from inline: inline":                 {action: rollout.Promote, existing: inline(t), inline: both(newText)},
		"promoted from a Secret of any hub: inline":    {action: rollout.Promote, existing: notMarked(t), inline: both(newText)},
		"promoted to confidential ones: in a Secret":   {action: rollout.Promote, existing: inline(t), secret: true, stored: both(newText)},
		"staged over inline: both inline":              {action: rollout.Stage, existing: inline(t), inline: mixed},
		"confidential ones staged over inline":         {action: rollout.Stage, existing: inline(t), secret: true, stored: mixed},
		"staged over inline, with the setting":         {action: rollout.Stage, existing: inline(t), inSecrets: true, stored: mixed},
		"staged over plain ones in a Secret: inline":   {action: rollout.Stage, existing: marked(t), inline: mixed},
		"staged over unknown ones in a Secret: stay":   {action: rollout.Stage, existing: notMarked(t), stored: mixed},
		"left, inline: unchanged":                      {action: rollout.NoChange, existing: inline(t), inline: both(oldText), keep: true},
		"left, in a Secret: unchanged":                 {action: rollout.NoChange, existing: marked(t), keep: true},
		"nothing to deploy, inline: unchanged":         {action: rollout.Promote, existing: unchanged(t, false), inline: both(newText)},
		"nothing to deploy, in a Secret: unchanged":    {action: rollout.Promote, existing: unchanged(t, true), stored: both(newText)},
		"nothing to stage, in a Secret: unchanged":     {action: rollout.Stage, existing: unchanged(t, true), keep: true},
		"nothing to stage, inline: unchanged":          {action: rollout.Stage, existing: unchanged(t, false), inline: both(newText)},
		"plain ones become confidential, the ID stays": {action: rollout.Promote, existing: unchanged(t, false), secret: true, stored: both(newText)},
		"the same while paused":                        {action: rollout.Stage, existing: unchanged(t, false), secret: true, stored: both(newText)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{
				Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: test.action, Existing: test.existing,
				Values: oldValues(), SecretKnown: true, PlainInSecrets: test.inSecrets,
			}
			if test.secret {
				in.Bundle.Spec.ValuesHash = "hash"
			}
			got, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.inline, valuesOf(t, got.Deployment)); diff != "" {
				t.Errorf("in the BundleDeployment (-want +got):\n%s", diff)
			}
			if test.keep {
				if !got.KeepSecret || !Same(test.existing, got.Deployment) && test.action != rollout.NoChange {
					t.Errorf("changed: %+v", got)
				}
				return
			}
			if diff := cmp.Diff(test.stored, got.Values); diff != "" {
				t.Errorf("in the Secret (-want +got):\n%s", diff)
			}
			if hash := got.Deployment.Spec.ValuesHash; hash != test.stored.Hash() || got.KeepSecret {
				t.Errorf("hash %q, want %q", hash, test.stored.Hash())
			}
			if strings.HasPrefix(name, "nothing") && !Same(test.existing, got.Deployment) {
				t.Errorf("it would be written: %s", cmp.Diff(test.existing, got.Deployment))
			}
		})
	}
}

// Caches hold values as text.
func TestCompactValues_AreTheSame(t *testing.T) {
	for _, action := range []rollout.Action{rollout.Promote, rollout.Stage, rollout.NoChange} {
		whole, cached := inline(t), inline(t)
		CompactValues(&cached.Spec.Options)
		CompactValues(&cached.Spec.StagedOptions)
		if cached.Spec.Options.Helm.Values.Text != oldText || !Same(cached, whole) || !Same(whole, cached) {
			t.Fatalf("%+v differs", cached.Spec.Options.Helm.Values)
		}
		in := Input{Bundle: targetingtest.Bundle(), Target: newTarget(t), Action: action, Existing: whole}
		want, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Existing = cached
		got, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(compacted(want.Deployment.Spec), compacted(got.Deployment.Spec)); diff != "" {
			t.Errorf("%v (-whole +cached):\n%s", action, diff)
		}
	}
	if other := inline(t); Same(inline(t), func() *fleet.BundleDeployment {
		other.Spec.Options.Helm = targetingtest.Helm("old", false)
		return other
	}()) {
		t.Error("other values make no difference")
	}
}

func TestLargeValues_StayInASecret(t *testing.T) {
	for size, inSecret := range map[int]bool{maxInline/2 - 16: false, maxInline: true} {
		target := newTarget(t)
		target.Options.Helm = targetingtest.Helm("text", strings.Repeat("x", size))
		got, err := Decide(Input{Bundle: targetingtest.Bundle(), Target: target, Action: rollout.Promote})
		if err != nil {
			t.Fatal(err)
		}
		if (got.Deployment.Spec.ValuesHash != "") != inSecret || got.Values.Empty() == inSecret {
			t.Errorf("%d bytes: hash %q", size, got.Deployment.Spec.ValuesHash)
		}
		if mark := got.Deployment.Annotations[annotation.PlainValues]; mark != got.Deployment.Spec.ValuesHash {
			t.Errorf("%d bytes: mark %q: an agent would not show them", size, mark)
		}
	}
}
