// Package accounts knows who may use the control plane: accounts with passwords
// and passkeys, sign-in through an OpenID provider or by client certificate,
// API tokens for scripts, the sessions of browsers, and the one-time links that
// begin it all.
//
// Everything is kept in memory and written through to a Storage, one value an
// account, a session, a token; a change is in force once it is on disk. No
// secret is kept: passwords as argon2id, everything that has 256 random bits as
// its SHA-256.
//
// A session carries the epoch of its account. What takes rights away from an
// account (a new password, another role, disabling it) raises the epoch in the
// same write, and so ends all sessions at once. A token may do no more than its
// account may now.
package accounts
