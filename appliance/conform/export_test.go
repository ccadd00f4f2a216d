package conform

// Page holds a file to what it should say, or writes it with -update.
var Page = page
