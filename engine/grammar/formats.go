package grammar

// formats gives for each format of JSON Schema 2020-12 (validation §7.3) a
// pattern for strings that have it; an empty one means that the format is
// refused. Several are narrower than the format: what is written must be right,
// but need not be exotic. A format that is not listed is an annotation.
var formats = map[string]string{
	"date":      fmtDate,
	"time":      fmtTime,
	"date-time": `(?:` + fmtDate + `)T` + fmtTime,
	// RFC 3339 appendix A, with up to 4 digits a part.
	"duration": `P(?:[0-9]{1,4}W|` + fmtDays + `(?:T` + fmtClock + `)?|T` + fmtClock + `)`,

	"email":        `[A-Za-z0-9_+-]{1,30}(?:\.[A-Za-z0-9_+-]{1,30})?@` + fmtHost,
	"idn-email":    `[A-Za-z0-9_+-]{1,30}(?:\.[A-Za-z0-9_+-]{1,30})?@` + fmtHost,
	"hostname":     fmtHost,
	"idn-hostname": fmtHost,
	"ipv4":         fmtIPv4,
	"ipv6":         fmtIPv6,

	"uri":           fmtURI,
	"uri-reference": `(?:` + fmtURI + `|(?:/` + fmtSegment + `)+)`,
	"iri":           fmtURI,
	"iri-reference": `(?:` + fmtURI + `|(?:/` + fmtSegment + `)+)`,
	"uri-template":  fmtURI,

	"uuid":                  `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"json-pointer":          fmtPointer,
	"relative-json-pointer": `(?:0|[1-9][0-9]{0,3})(?:#|` + fmtPointer + `)`,
	"regex":                 "", // well-formed nesting is beyond a pattern
}

const (
	fmtLeap = `(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	fmtDate = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|` + fmtLeap + `-02-29)`
	fmtTime = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`

	fmtDays  = `(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|[0-9]{1,4}D)`
	fmtClock = `(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|[0-9]{1,4}S)`

	fmtLabel = `[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}`
	fmtHost  = fmtLabel + `(?:\.` + fmtLabel + `){0,2}`

	fmtOctet = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	fmtIPv4  = fmtOctet + `\.` + fmtOctet + `\.` + fmtOctet + `\.` + fmtOctet

	// RFC 3986 §3.2.2, without the forms that end in an IPv4 address.
	fmtH16  = `[0-9a-fA-F]{1,4}`
	fmtIPv6 = `(?:(?:` + fmtH16 + `:){7}` + fmtH16 +
		`|::(?:` + fmtH16 + `(?::` + fmtH16 + `){0,5})?` +
		`|` + fmtH16 + `::(?:` + fmtH16 + `(?::` + fmtH16 + `){0,4})?` +
		`|` + fmtH16 + `(?::` + fmtH16 + `){1}::(?:` + fmtH16 + `(?::` + fmtH16 + `){0,3})?` +
		`|` + fmtH16 + `(?::` + fmtH16 + `){2}::(?:` + fmtH16 + `(?::` + fmtH16 + `){0,2})?` +
		`|` + fmtH16 + `(?::` + fmtH16 + `){3}::(?:` + fmtH16 + `(?::` + fmtH16 + `){0,1})?` +
		`|` + fmtH16 + `(?::` + fmtH16 + `){4}::(?:` + fmtH16 + `)?)`

	fmtChar    = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
	fmtSegment = fmtChar + `*`
	fmtURI     = `[a-z][a-z0-9+.-]{1,15}://` + fmtHost + `(?::[1-9][0-9]{0,3})?(?:/` + fmtSegment + `)*(?:\?(?:` + fmtChar + `|[/?])*)?(?:#(?:` + fmtChar + `|[/?])*)?`
	fmtPointer = `(?:/(?:[A-Za-z0-9_ .-]|~[01])*)*`
)
