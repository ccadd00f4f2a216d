# PowerShell completion of hearth
#   this shell:  hearth completion powershell | Out-String | Invoke-Expression
#   every shell: hearth completion powershell >> $PROFILE

Register-ArgumentCompleter -Native -CommandName hearth, hearth.exe -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $program = $commandAst.CommandElements[0].ToString()
    $words = @()
    foreach ($e in ($commandAst.CommandElements | Select-Object -Skip 1)) {
        if ($e.Extent.EndOffset -lt $cursorPosition) { $words += $e.ToString() }
    }
    # An empty argument does not reach a program in PowerShell before 7.3: the line does.
    $line = (@('hearth') + $words) -join ' '
    $line = $line + ' ' + $wordToComplete
    & $program __complete --line $line 2>$null | ForEach-Object {
        $word, $about = $_ -split "`t", 2
        if ($word -in ':none', ':files', ':dirs' -or -not $word) { return }
        # What stands before the last "=" or ":" was left out, as for bash.
        $front = ''
        if ($wordToComplete -match '^(.*[=:])') { $front = $Matches[1] }
        if (-not $about) { $about = $word }
        [System.Management.Automation.CompletionResult]::new($front + $word, $word, 'ParameterValue', $about)
    }
}
