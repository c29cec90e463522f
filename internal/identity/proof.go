package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// proofType is the type in the header of a proof. A signature of the same key over something else has another type.
const proofType = "fleet-agent-proof+jws"

// ErrProof is wrapped by errors about a proof that does not prove its claims.
var ErrProof = errors.New("the proof is not valid")

// Claims describes the one request that a proof is made for.
type Claims struct {
	// ClientID and ClientRandom are those of the request. The proof contains only their hashes.
	ClientID, ClientRandom string
	// Account is the UID of the account that reads the answer to the request. A copy of the proof in a request with
	// another token is not valid, so a client that copies a request does not get its answer.
	Account string
	// Hub is the thumbprint of the hub's key, or "" before the agent knows it.
	Hub string
}

// payload is the signed document. After a change, hubs and agents of other releases no longer understand each other.
type payload struct {
	Client  string `json:"client"`
	Random  string `json:"random"`
	Account string `json:"account"`
	Hub     string `json:"hub,omitempty"`
}

func (c Claims) encode() ([]byte, error) {
	if c.Account == "" {
		return nil, fmt.Errorf("no account: %w", ErrProof)
	}
	document, err := json.Marshal(payload{Client: hash(c.ClientID), Random: hash(c.ClientRandom), Account: c.Account, Hub: c.Hub})
	if err != nil {
		return nil, fmt.Errorf("encoding a proof: %w", err)
	}
	return document, nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Prove returns a proof of the claims: a JWS in compact form.
func (k Key) Prove(claims Claims) (string, error) {
	if k.private == nil {
		return "", ErrKey
	}
	document, err := claims.encode()
	if err != nil {
		return "", err
	}
	return k.sign(proofType, document)
}

// Verify returns nil if the key, as returned by Key.Public, has signed exactly these claims.
func Verify(public, proof string, claims Claims) error {
	if len(proof) > maxProof {
		return fmt.Errorf("proof of %d bytes: %w", len(proof), ErrProof)
	}
	want, err := claims.encode()
	if err != nil {
		return err
	}
	got, err := verify(public, proofType, proof)
	if errors.Is(err, ErrKey) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProof, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("signature is for another request: %w", ErrProof)
	}
	return nil
}
