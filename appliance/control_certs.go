package appliance

import (
	"context"
	"encoding/pem"
	"errors"
	"time"

	"hearth/appliance/certs"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// certificateReport is what cert/show tells.
type certificateReport struct {
	certs.Report
	Running bool               `json:"running"` // false: no server runs, and this is what is stored
	Trust   []certs.TrustSteps `json:"trust"`   // how clients come to trust the root
}

// certificateEvents is what cert/events tells, the newest first.
type certificateEvents struct {
	Events []certs.Event `json:"events"`
}

// certificateRoots is what clients should trust.
type certificateRoots struct {
	PEM   string       `json:"pem"` // all of them, as in ca.pem
	Roots []certs.Root `json:"roots"`
}

type renewInput struct {
	Name string `json:"name,omitempty"` // of a certificate in use; empty: all
}

type rootDownload struct {
	Format string `json:"format,omitempty"` // "pem" (default) or "der", which phones take
}

var (
	opCertShow = operation[none, certificateReport]{
		name: "cert/show", place: "GET /certificates", access: admin.Read,
		summary: "the certificates in use with their chains, expiry and last errors, the roots, and how to trust them",
		run:     showCertificates,
	}
	opCertRenew = operation[renewInput, certificateReport]{
		name: "cert/renew", place: "POST /certificates/renew", access: admin.Operate,
		summary: "renew the certificate for a name now, or all; files are read again",
		run:     renewCertificates,
		subject: func(r renewInput) string {
			if r.Name == "" {
				return "certificates"
			}
			return "certificate " + r.Name
		},
	}
	opCertEvents = operation[none, certificateEvents]{
		name: "cert/events", place: "GET /certificates/events", access: admin.Read,
		summary: "the last hundred issues, renewals, failures and rotations, newest first",
		run:     listCertificateEvents,
	}
	opCertRoot = operation[none, certificateRoots]{
		name: "cert/root", place: "GET /certificates/root", access: admin.ReadTenant,
		summary: "what clients should trust, as PEM and DER, with fingerprints",
		run:     showRoots,
		scope:   everyTenant[none],
	}
	opCertDownload = streamOperation[rootDownload]{
		operation: operation[rootDownload, none]{
			name: "cert/root/download", place: "GET /certificates/root/download", access: admin.ReadTenant,
			summary: "what clients should trust, as a file: format pem with all roots, or der with the newest",
			scope:   everyTenant[rootDownload],
		},
		stream: downloadRoot,
	}
	opCertRotate = operation[none, certificateReport]{
		name: "cert/rotate_root", place: "POST /certificates/root/rotate", access: admin.Own, fresh: true,
		summary: "make a new root; clients that trust the old one or the new one are served until the old one is retired",
		run: func(ctx context.Context, c *control, _ none) (certificateReport, error) {
			return changeAuthority(ctx, c, (*certs.Manager).Rotate)
		},
		subject: func(none) string { return "certificate authority" },
		detail:  newestRoot,
	}
	opCertRetire = operation[none, certificateReport]{
		name: "cert/retire_root", place: "POST /certificates/root/retire", access: admin.Own, fresh: true,
		summary: "end the overlap of two roots: clients must trust the newer one from now on",
		run: func(ctx context.Context, c *control, _ none) (certificateReport, error) {
			return changeAuthority(ctx, c, (*certs.Manager).Retire)
		},
		subject: func(none) string { return "certificate authority" },
		detail:  newestRoot,
	}
)

func newestRoot(_ none, r certificateReport) string {
	if len(r.Roots) == 0 {
		return ""
	}
	return "the root is " + r.Roots[0].Subject + ", SHA-256 " + r.Roots[0].Fingerprint
}

func (c *control) certificateKV() certificateKV {
	return certificateKV{c.store.Blobs(certificateBlobs)}
}

func showCertificates(ctx context.Context, c *control, _ none) (certificateReport, error) {
	if c.server != nil {
		r := c.server.certs.Load().Report()
		return certificateReport{r, true, certs.Trust(c.server.dir.rootPEM())}, nil
	}
	conf, err := c.config()
	if err != nil {
		return certificateReport{}, err
	}
	r, err := certs.Stored(ctx, c.certificateKV(), time.Now)
	r.Mode, r.MinVersion = conf.TLS.Mode, conf.TLS.MinVersion
	return certificateReport{r, false, certs.Trust("ca.pem")}, err
}

// changeAuthority holds off a reload, which would put other certificates in the place of
// those that are being changed.
func changeAuthority(ctx context.Context, c *control, change func(*certs.Manager, context.Context) error) (certificateReport, error) {
	if c.server == nil {
		return certificateReport{}, errNoServer
	}
	c.server.reloading.Lock()
	defer c.server.reloading.Unlock()
	if err := change(c.server.certs.Load(), ctx); err != nil {
		return certificateReport{}, err
	}
	return showCertificates(ctx, c, none{})
}

// renewTimeout bounds a renewal that somebody waits for.
const renewTimeout = 2 * time.Minute

// renewCertificates does not hold off a reload: an ACME authority may take its
// time.
func renewCertificates(ctx context.Context, c *control, r renewInput) (certificateReport, error) {
	if c.server == nil {
		return certificateReport{}, errNoServer
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	if err := c.server.certs.Load().Renew(ctx, r.Name); err != nil {
		var known *infer.Error
		if !errors.As(err, &known) { // the cause is what the caller needs, and holds no secret
			err = infer.Errorf(infer.CodeUnavailable, "%v", err)
		}
		return certificateReport{}, err
	}
	return showCertificates(ctx, c, none{})
}

func listCertificateEvents(ctx context.Context, c *control, _ none) (certificateEvents, error) {
	if c.server != nil {
		return certificateEvents{c.server.certs.Load().Events()}, nil
	}
	list, err := certs.Events(ctx, c.certificateKV())
	return certificateEvents{list}, err
}

func (c *control) roots(ctx context.Context) ([]certs.Root, error) {
	if c.server != nil {
		return c.server.certs.Load().Roots(), nil
	}
	return certs.StoredRoots(ctx, c.certificateKV(), time.Now)
}

func showRoots(ctx context.Context, c *control, _ none) (certificateRoots, error) {
	list, err := c.roots(ctx)
	out := certificateRoots{Roots: list}
	for _, r := range list {
		out.PEM += r.PEM
	}
	return out, err
}

func downloadRoot(ctx context.Context, c *control, r rootDownload, w admin.Writer) error {
	list, err := c.roots(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return infer.Errorf(infer.CodeNotFound, "there is no root yet: `hearth serve` makes one")
	}
	switch r.Format {
	case "", "pem":
		w.Begin("application/x-pem-file", "hearth-ca.pem")
		for _, root := range list {
			if err := pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: root.DER}); err != nil {
				return err
			}
		}
		return nil
	case "der":
		w.Begin("application/x-x509-ca-cert", "hearth-ca.crt")
		_, err := w.Write(list[0].DER)
		return err
	}
	return infer.Invalid("format", "got %.20q, wanted pem or der", r.Format)
}
