package register

import "time"

// The pauses between attempts at an operation that may succeed later.
const (
	firstPause = time.Second
	longPause  = 15 * time.Second
	// A new credential is tested again quickly, because its rights are being granted.
	firstProofPause = 100 * time.Millisecond
	longProofPause  = 2 * time.Second
	// longRenewalPause is the longest pause between two requests that the hub accepted but whose credentials do not
	// work.
	longRenewalPause = 10 * time.Minute
	// longMovePause is the longest pause between two tests at the address in the bootstrap secret, where no hub may
	// run yet.
	longMovePause = time.Minute
	// A token expires a quarter of its lifetime after its renewal is due at the latest, which is at least two minutes.
	firstTokenPause = 5 * time.Second
	longTokenPause  = 10 * time.Minute
	// A recovery request that the hub refuses or does not grant is repeated ever more slowly.
	firstRecoveryPause = 10 * time.Second
	longRecoveryPause  = 2 * time.Minute
	longDocumentPause  = 5 * time.Minute
	// longKeepPause is the longest pause between two attempts to read the recovery Secret.
	longKeepPause = time.Minute
	// What the hub has for a recovery is read about once a day, or sooner until there is something. A token that lasts a
	// day is renewed after 18 hours at the latest, so that each refresh belongs to a renewal.
	firstRefreshPause = 70 * time.Second
	longRefreshPause  = 18 * time.Hour
	// doubtPause is the minimum time between two tests that are caused by the hub's responses to other requests.
	doubtPause = 5 * time.Second
)
