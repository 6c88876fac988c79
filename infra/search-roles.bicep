// Reading both indexes: their documents, and their definitions. Only where the service itself promotes by an alias can
// a role here change anything, and then aliases alone.
targetScope = 'resourceGroup'

@description('Name of the search service.')
param searchServiceName string

@description('Object id of the identity that reads.')
param principalId string

@description('Whether a role of exactly what is needed is made, or else built-in ones are given.')
param customRoles bool

@description('Whether the identity may write aliases. It takes a role made here: built-in ones could write indexes too.')
param writesAliases bool

var searchIndexDataReader = '1407120a-92aa-4202-b7e9-c0e197c71c8f'
// The data role queries documents and nothing else; definitions take Reader, given on this one service.
var reader = 'acdd72a7-3385-48ef-bd42-f606fba81ae7'

resource search 'Microsoft.Search/searchServices@2023-11-01' existing = {
  name: searchServiceName
}

resource documents 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(search.id, principalId, searchIndexDataReader)
  scope: search
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', searchIndexDataReader)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

resource definitions 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!customRoles) {
  name: guid(search.id, principalId, reader)
  scope: search
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', reader)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

resource definitionReader 'Microsoft.Authorization/roleDefinitions@2022-04-01' = if (customRoles) {
  name: guid(search.id, 'definition-reader')
  properties: {
    roleName: 'Search index definition reader (${searchServiceName})'
    description: 'Reads definitions and statistics of indexes, and aliases.'
    type: 'CustomRole'
    permissions: [
      {
        actions: [
          'Microsoft.Search/searchServices/indexes/read'
          'Microsoft.Search/searchServices/aliases/read'
        ]
        notActions: []
      }
    ]
    assignableScopes: [
      resourceGroup().id
    ]
  }
}

resource definitionsByOwnRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (customRoles) {
  name: guid(search.id, principalId, 'definition-reader')
  scope: search
  properties: {
    roleDefinitionId: definitionReader.id
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}

resource aliasWriter 'Microsoft.Authorization/roleDefinitions@2022-04-01' = if (writesAliases) {
  name: guid(search.id, 'alias-writer')
  properties: {
    roleName: 'Search alias writer (${searchServiceName})'
    description: 'Points aliases to other indexes.'
    type: 'CustomRole'
    permissions: [
      {
        actions: [
          'Microsoft.Search/searchServices/aliases/read'
          'Microsoft.Search/searchServices/aliases/write'
        ]
        notActions: []
      }
    ]
    assignableScopes: [
      resourceGroup().id
    ]
  }
}

resource aliases 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (writesAliases) {
  name: guid(search.id, principalId, 'alias-writer')
  scope: search
  properties: {
    roleDefinitionId: aliasWriter.id
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
