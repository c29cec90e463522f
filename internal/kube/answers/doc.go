// Package answers classifies an API server's error by what it means for the object that was sent.
//
//	error ─► IsTooLarge, IsForObject ─► whether a user has to change the object
//	error ─► Message ─► text for a status
package answers
